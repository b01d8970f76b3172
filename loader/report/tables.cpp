// SPDX-License-Identifier: Apache-2.0
#include "report/tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "profile/otlp_fields.h"
#include "profile/text.h"

namespace spanfold::report {
namespace {

namespace otlp = profile::otlp;
using protozero::pbf_reader;
using protozero::pbf_wire_type;

// A module's name stands in every unnamed frame of it.
constexpr std::size_t kMaxModuleBytes = 256;

void expect(const pbf_reader& field, pbf_wire_type type) {
  if (field.wire_type() == type) return;
  throw Malformed(fmt::format("field {} has wire type {} and not {}", field.tag(),
                              static_cast<unsigned>(field.wire_type()), static_cast<unsigned>(type)));
}

std::string_view base_name(std::string_view path) {
  if (path.starts_with('[')) return path;
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// Producers that write run-time addresses map files where user space or the kernel of a 64-bit machine maps them; an
// address below is one of the file.
bool is_run_time(std::uint64_t memory_start, std::uint64_t memory_limit, std::uint64_t address) {
  constexpr std::uint64_t kFirstMapped = std::uint64_t{1} << 36;
  return memory_start >= kFirstMapped && memory_start <= address && address < memory_limit;
}

}  // namespace

std::uint64_t read_varint(pbf_reader& field) {
  expect(field, pbf_wire_type::varint);
  return field.get_uint64();
}

std::uint64_t read_fixed64(pbf_reader& field) {
  expect(field, pbf_wire_type::fixed64);
  return field.get_fixed64();
}

std::string_view read_bytes(pbf_reader& field) {
  expect(field, pbf_wire_type::length_delimited);
  const protozero::data_view view = field.get_view();
  return {view.data(), view.size()};
}

pbf_reader read_message(pbf_reader& field) {
  const std::string_view bytes = read_bytes(field);
  return {bytes.data(), bytes.size()};
}

const std::string_view& Tables::row(const Rows& rows, std::uint64_t index, const char* table) {
  if (index < rows.size()) return rows[index];
  throw Malformed(fmt::format("index {} points outside the {} table of {} rows", static_cast<std::int64_t>(index),
                              table, rows.size()));
}

void Tables::add(std::string_view dictionary) {
  pbf_reader field(dictionary.data(), dictionary.size());
  const auto push = [&](Rows& rows) { rows.push_back(read_bytes(field)); };
  while (field.next()) {
    switch (field.tag()) {
      case otlp::dictionary::kMapping: push(mappings_); break;
      case otlp::dictionary::kLocation: push(locations_); break;
      case otlp::dictionary::kFunction: push(functions_); break;
      case otlp::dictionary::kLink: push(links_); break;
      case otlp::dictionary::kString: push(strings_); break;
      case otlp::dictionary::kAttribute: push(attributes_); break;
      case otlp::dictionary::kStack: push(stacks_); break;
      default: field.skip();
    }
  }
}

std::string_view Tables::string(std::uint64_t index) const { return row(strings_, index, "string"); }

AnyValue Tables::any_value(std::string_view bytes) const {
  AnyValue value;
  pbf_reader field(bytes.data(), bytes.size());
  while (field.next()) {
    switch (field.tag()) {
      case otlp::any_value::kString: value.text = read_bytes(field); break;
      case otlp::any_value::kStringStrindex: value.text = string(read_varint(field)); break;
      case otlp::any_value::kInt: value.number = static_cast<std::int64_t>(read_varint(field)); break;
      default: field.skip();
    }
  }
  return value;
}

Tables::Attribute Tables::attribute(std::uint64_t index) {
  const std::string_view bytes = row(attributes_, index, "attribute");
  const auto [known, added] = read_attributes_.try_emplace(index);
  if (!added) return known->second;
  Attribute attribute;
  pbf_reader field(bytes.data(), bytes.size());
  while (field.next()) {
    switch (field.tag()) {
      case otlp::attribute::kKey: attribute.key = string(read_varint(field)); break;
      case otlp::attribute::kValue: attribute.value = any_value(read_bytes(field)); break;
      default: field.skip();
    }
  }
  return known->second = attribute;
}

std::uint32_t Tables::span(std::uint64_t index) {
  if (index == 0) return 0;  // unlinked, also where a producer left the table empty
  const auto [known, added] = span_numbers_.try_emplace(index, 0);
  if (!added) return known->second;
  const std::string_view bytes = row(links_, index, "link");
  pbf_reader field(bytes.data(), bytes.size());
  SpanContext span;
  const auto take = [&](auto& id) {
    const std::string_view value = read_bytes(field);
    if (value.size() != id.size() && !value.empty())
      throw Malformed(fmt::format("a link has an id of {} bytes", value.size()));
    std::copy(value.begin(), value.end(), id.begin());
  };
  while (field.next()) {
    switch (field.tag()) {
      case otlp::link::kTraceId: take(span.trace_id); break;
      case otlp::link::kSpanId: take(span.span_id); break;
      default: field.skip();
    }
  }
  return known->second = into_.add_span(span);
}

Tables::Location Tables::location(std::uint64_t index) {
  const std::string_view bytes = row(locations_, index, "location");
  pbf_reader field(bytes.data(), bytes.size());
  Location location;
  while (field.next()) {
    switch (field.tag()) {
      case otlp::location::kMappingIndex: location.mapping = read_varint(field); break;
      case otlp::location::kAddress: location.address = read_varint(field); break;
      case otlp::location::kLines: location.lines.push_back(read_bytes(field)); break;
      case otlp::location::kAttributeIndices:
        for_each_varint(field, [&](std::uint64_t attribute_index) {
          const Attribute type = attribute(attribute_index);
          location.synthetic |= type.key == "profile.frame.type" && type.value.text == "abort-marker";
        });
        break;
      default: field.skip();
    }
  }
  return location;
}

std::string_view Tables::line_name(std::string_view line) {
  std::uint64_t index = 0;
  pbf_reader in_line(line.data(), line.size());
  while (in_line.next()) {
    if (in_line.tag() == otlp::line::kFunctionIndex) {
      index = read_varint(in_line);
    } else {
      in_line.skip();
    }
  }
  return index == 0 ? std::string_view() : function_name(index);
}

std::string_view Tables::function_name(std::uint64_t index) {
  const std::string_view bytes = row(functions_, index, "function");
  const auto [known, added] = function_names_.try_emplace(index);
  if (!added) return known->second;
  std::uint64_t name = 0;
  pbf_reader in_function(bytes.data(), bytes.size());
  while (in_function.next()) {
    if (in_function.tag() == otlp::function::kName) {
      name = read_varint(in_function);
    } else {
      in_function.skip();
    }
  }
  return known->second = name == 0 ? std::string_view() : string(name);
}

const Tables::Module& Tables::module(std::uint64_t mapping_index) {
  const std::string_view bytes = row(mappings_, mapping_index, "mapping");
  const auto [known, added] = modules_.try_emplace(mapping_index);
  Module& module = known->second;
  if (!added) return module;
  std::uint64_t filename = 0;
  pbf_reader field(bytes.data(), bytes.size());
  while (field.next()) {
    switch (field.tag()) {
      case otlp::mapping::kMemoryStart: module.start = read_varint(field); break;
      case otlp::mapping::kMemoryLimit: module.limit = read_varint(field); break;
      case otlp::mapping::kFileOffset: module.offset = read_varint(field); break;
      case otlp::mapping::kFilename: filename = read_varint(field); break;
      default: field.skip();
    }
  }
  module.name = profile::to_valid_utf8(base_name(filename == 0 ? "" : string(filename)), kMaxModuleBytes);
  return module;
}

std::string Tables::unnamed(const Location& location) {
  if (location.mapping == 0) return "[unknown]";
  const Module& module = this->module(location.mapping);
  if (module.name.empty()) return "[unknown]";
  const bool rebase = !file_addresses && is_run_time(module.start, module.limit, location.address);
  return fmt::format("{}+{:#x}", module.name,
                     rebase ? location.address - module.start + module.offset : location.address);
}

void Tables::append_frames(std::uint64_t location_index, std::vector<std::uint32_t>& frames) {
  const auto [known, added] = location_frames_.try_emplace(location_index);
  if (added) {
    const Location found = location(location_index);
    for (const std::string_view line : found.lines) {
      const std::string_view name = line_name(line);
      if (name.empty()) continue;
      charge(name.size());
      const bool bare = found.synthetic && !name.starts_with('[');
      known->second.push_back(into_.add_frame(bare ? fmt::format("[{}]", name) : std::string(name)));
    }
    if (known->second.empty()) known->second.push_back(into_.add_frame(unnamed(found)));
  }
  if (into_.stack_frame_count() + frames.size() + known->second.size() > max_frames_) {
    throw Malformed("its stacks expand to more frames than a file of this size can mean");
  }
  frames.insert(frames.end(), known->second.begin(), known->second.end());
}

std::uint32_t Tables::make_stack(std::uint64_t index) {
  std::vector<std::uint32_t> frames;
  // Row 0 is the empty stack, also where a producer left the table empty.
  if (index != 0 || !stacks_.empty()) {
    const std::string_view bytes = row(stacks_, index, "stack");
    pbf_reader field(bytes.data(), bytes.size());
    while (field.next()) {
      if (field.tag() == otlp::stack::kLocationIndices) {
        for_each_varint(field, [&](std::uint64_t at) { append_frames(at, frames); });
      } else {
        field.skip();
      }
    }
  }
  if (frames.empty()) frames.push_back(into_.add_frame("[unknown]"));
  // Rows by stack, and stacks in JSON, spell it out.
  for (const std::uint32_t frame : frames) charge(into_.frames()[frame].size() + 1);
  return into_.add_stack(frames);
}

std::uint32_t Tables::stack(std::uint64_t index) {
  const auto [known, added] = stack_numbers_.try_emplace(index, 0);
  if (added) known->second = make_stack(index);
  return known->second;
}

}  // namespace spanfold::report
