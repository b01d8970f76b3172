// SPDX-License-Identifier: Apache-2.0
#include "report/decode.h"

#include <fmt/format.h>

#include <protozero/exception.hpp>
#include <utility>
#include <vector>

#include "profile/otlp_fields.h"
#include "profile/span_times.h"
#include "report/accounting.h"
#include "report/samples.h"
#include "report/tables.h"

namespace spanfold::report {
namespace {

namespace otlp = profile::otlp;
using protozero::pbf_reader;

class Decoder {
 public:
  Decoder(Recording& into, std::size_t bytes) : into_(into), tables_(into, bytes) {}

  void add_dictionary(std::string_view bytes) { tables_.add(bytes); }

  void read_resource_profiles(std::string_view bytes) {
    Process process;
    std::vector<std::string_view> scopes;
    pbf_reader field(bytes.data(), bytes.size());
    while (field.next()) {
      switch (field.tag()) {
        case otlp::resource_profiles::kResource: read_resource(read_message(field), process); break;
        case otlp::resource_profiles::kScopeProfiles: scopes.push_back(read_bytes(field)); break;
        default: field.skip();
      }
    }
    tables_.charge(text_bytes(process));
    process_ = into_.add_process(process);
    for (const std::string_view scope : scopes) read_scope_profiles(scope);
  }

 private:
  void read_resource(pbf_reader resource, Process& process) {
    while (resource.next()) {
      if (resource.tag() == otlp::resource::kAttributes) {
        read_resource_attribute(read_message(resource), process);
      } else {
        resource.skip();
      }
    }
  }

  void read_resource_attribute(pbf_reader pair, Process& process) {
    std::string_view key;
    AnyValue value;
    while (pair.next()) {
      switch (pair.tag()) {
        case otlp::key_value::kKey: key = read_bytes(pair); break;
        case otlp::key_value::kKeyStrindex: key = tables_.string(read_varint(pair)); break;
        case otlp::key_value::kValue: value = tables_.any_value(read_bytes(pair)); break;
        default: pair.skip();
      }
    }
    if (key == "process.pid") process.pid = value.number;
    if (!value.text) return;
    tables_.charge(value.text->size());
    if (key == "service.name") process.service = *value.text;
    if (key == "process.executable.name") process.executable = *value.text;
    if (key == "host.name") process.host = *value.text;
    if (key == "container.id") process.container = *value.text;
  }

  void read_scope_profiles(std::string_view bytes) {
    std::vector<std::string_view> profiles;
    tables_.file_addresses = false;
    pbf_reader field(bytes.data(), bytes.size());
    while (field.next()) {
      switch (field.tag()) {
        case otlp::scope_profiles::kScope: read_scope(read_message(field)); break;
        case otlp::scope_profiles::kProfiles: profiles.push_back(read_bytes(field)); break;
        default: field.skip();
      }
    }
    for (const std::string_view profile : profiles) read_profile(profile);
  }

  void read_scope(pbf_reader scope) {
    while (scope.next()) {
      if (scope.tag() == otlp::scope::kName) {
        tables_.file_addresses = read_bytes(scope) == "spanfold";
      } else {
        scope.skip();
      }
    }
  }

  // Samples may stand before the fields that say what they mean: two passes.
  void read_profile(std::string_view bytes) {
    ProfileHead head;
    std::uint64_t start = 0;
    std::uint64_t duration = 0;
    bool has_samples = false;
    pbf_reader field(bytes.data(), bytes.size());
    while (field.next()) {
      switch (field.tag()) {
        case otlp::profile::kSampleType: head.sample_type = read_value_type(read_message(field)); break;
        case otlp::profile::kTimeUnixNano: start = read_fixed64(field); break;
        case otlp::profile::kDurationNano: duration = read_varint(field); break;
        case otlp::profile::kPeriodType: head.period_type = read_value_type(read_message(field)); break;
        case otlp::profile::kPeriod: head.period = read_varint(field); break;
        case otlp::profile::kAttributeIndices:
          for_each_varint(field, [&](std::uint64_t index) { read_attribute(tables_.attribute(index), head); });
          break;
        default: has_samples |= field.tag() == otlp::profile::kSamples; field.skip();
      }
    }
    into_.add_window(start, duration);
    if (!has_samples) return;
    if (tables_.empty()) throw Malformed("it has samples and no dictionary");
    if (static_cast<std::int64_t>(head.period) < 0) throw Malformed("a profile has a negative period");
    read_samples(bytes, head, process_, tables_, into_);
  }

  void read_attribute(const Tables::Attribute& attribute, ProfileHead& head) {
    tables_.charge(attribute.key.size());
    if (attribute.key == profile::kEndedKey) head.ended = attribute.value.number.value_or(0) != 0;
    add_accounting(attribute, into_);
  }

  ValueType read_value_type(pbf_reader field) {
    ValueType type;
    while (field.next()) {
      switch (field.tag()) {
        case otlp::value_type::kType: type.type = tables_.string(read_varint(field)); break;
        case otlp::value_type::kUnit: type.unit = tables_.string(read_varint(field)); break;
        default: field.skip();
      }
    }
    return type;
  }

  Recording& into_;
  Tables tables_;
  std::uint32_t process_ = 0;
};

// Where the top-level fields of a message are.
struct Layout {
  std::vector<std::string_view> dictionaries, resources;
  std::size_t torn_bytes = 0;
};

Layout find_fields(std::string_view bytes, bool torn) {
  Layout layout;
  pbf_reader field(bytes.data(), bytes.size());
  std::size_t whole = 0;  // bytes of whole fields
  try {
    while (field.next()) {
      switch (field.tag()) {
        case otlp::profiles_data::kResourceProfiles: layout.resources.push_back(read_bytes(field)); break;
        case otlp::profiles_data::kDictionary: layout.dictionaries.push_back(read_bytes(field)); break;
        default: field.skip();
      }
      whole = bytes.size() - field.length();
    }
  } catch (const protozero::end_of_buffer_exception&) {
    if (!torn) throw;
    layout.torn_bytes = bytes.size() - whole;
    return layout;
  }
  if (layout.dictionaries.empty() && layout.resources.empty()) throw Malformed("it holds no profiles");
  return layout;
}

Error not_otlp(const std::string& name, std::string_view why, std::string hint) {
  return Error{.what = fmt::format("{} is no whole OTLP profiles file: {}", name, why), .hint = std::move(hint)};
}

}  // namespace

Result<Decoded> decode(std::string_view bytes, const std::string& name, bool torn, Recording& into) {
  const std::string expected = "expected an OTLP ProfilesData message of opentelemetry-proto 1.10 or newer";
  if (bytes.empty()) return not_otlp(name, "it is empty", "did the recorder end?");
  if (bytes.starts_with("\x1f\x8b")) return not_otlp(name, "it is compressed by gzip", "gunzip it first");
  try {
    const Layout layout = find_fields(bytes, torn);
    Decoder decoder(into, bytes.size());
    for (const std::string_view dictionary : layout.dictionaries) decoder.add_dictionary(dictionary);
    for (const std::string_view resource : layout.resources) decoder.read_resource_profiles(resource);
    return Decoded{.torn_bytes = layout.torn_bytes};
  } catch (const protozero::end_of_buffer_exception&) {
    return not_otlp(name, "it ends in the middle of a field", "it was cut, or is of another format; " + expected);
  } catch (const protozero::exception& exception) {
    return not_otlp(name, exception.what(), expected);
  } catch (const Malformed& malformed) {
    return not_otlp(name, malformed.what(), expected);
  }
}

}  // namespace spanfold::report
