// SPDX-License-Identifier: Apache-2.0
#include "report/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "profile/otlp_fields.h"
#include "profile/span_times.h"

namespace spanfold::report {
namespace {

namespace otlp = profile::otlp;
using protozero::pbf_reader;

// What a value of a profile's samples means.
struct Meaning {
  Kind kind = Kind::kOnCpu;
  bool nanoseconds = false;     // values are time and not samples
  std::uint64_t period_ns = 0;  // of one sample; 0: not said
};

// Nothing: of no type that has a cost.
std::optional<Meaning> meaning_of(const ProfileHead& head) {
  const std::string_view type = head.sample_type.type;
  Meaning meaning;
  meaning.nanoseconds = head.sample_type.unit == "nanoseconds";
  if (head.period_type.unit == "nanoseconds") meaning.period_ns = head.period;
  if (type == "off_cpu") {
    meaning.kind = Kind::kBlocked;
  } else if (type == "runnable") {
    meaning.kind = Kind::kRunnable;
  } else if (!type.empty() && type != "samples" && type != "cpu" && type != "on_cpu") {
    return std::nullopt;
  }
  return meaning;
}

bool is_span_time(const ValueType& type) { return type.type == profile::kSpanTimeType && type.unit == "nanoseconds"; }

// The fields of one sample.
struct Fields {
  std::uint64_t stack = 0, link = 0;
  std::uint64_t sum = 0;  // of the values
  std::vector<std::uint64_t> values, timestamps;

  void clear() {
    stack = link = sum = 0;
    values.clear();
    timestamps.clear();
  }
};

void read_values(pbf_reader& field, Fields& sample) {
  for_each_varint(field, [&sample](std::uint64_t value) {
    if (__builtin_add_overflow(sample.sum, value, &sample.sum) || static_cast<std::int64_t>(sample.sum) < 0 ||
        static_cast<std::int64_t>(value) < 0) {
      throw Malformed("a sample has a value that is negative or too large");
    }
    sample.values.push_back(value);
  });
}

void read_fields(pbf_reader field, Fields& sample) {
  sample.clear();
  while (field.next()) {
    switch (field.tag()) {
      case otlp::sample::kStackIndex: sample.stack = read_varint(field); break;
      case otlp::sample::kLinkIndex: sample.link = read_varint(field); break;
      case otlp::sample::kValues: read_values(field, sample); break;
      case otlp::sample::kTimestampsUnixNano:
        for_each_fixed64(field, [&sample](std::uint64_t timestamp) { sample.timestamps.push_back(timestamp); });
        break;
      default: field.skip();
    }
  }
}

Cost cost_of(const Meaning& meaning, const Fields& sample) {
  const std::size_t values = sample.values.size();
  const std::size_t timestamps = sample.timestamps.size();
  // One value is the sum over a sample's timestamps or over none; else there is one for each, or none at all.
  if (values > 1 && values != timestamps) {
    throw Malformed(fmt::format("a sample has {} values for {} timestamps", values, timestamps));
  }
  if (meaning.nanoseconds && values != 0) {
    if (timestamps != 0) return {.count = timestamps, .ns = sample.sum};
    if (meaning.kind == Kind::kOnCpu && meaning.period_ns != 0) {
      return {.count = sample.sum / meaning.period_ns, .ns = sample.sum};
    }
    return {.count = values, .ns = sample.sum};
  }
  const std::uint64_t count = values != 0 ? sample.sum : timestamps;
  std::uint64_t ns = 0;
  if (__builtin_mul_overflow(count, meaning.period_ns, &ns)) throw Malformed("samples times period is too large");
  return {.count = count, .ns = ns};
}

// Of a span: time of no span says nothing.
void add_stays(const Fields& sample, std::uint32_t process, bool ended, Tables& tables, Recording& into) {
  if (sample.values.size() != sample.timestamps.size()) {
    throw Malformed(fmt::format("a span has {} times on threads that begin at {} instants", sample.values.size(),
                                sample.timestamps.size()));
  }
  const std::uint32_t span = tables.span(sample.link);
  if (span == 0) return;
  for (std::size_t at = 0; at < sample.values.size(); ++at) {
    const TimedStay stay = {.process = process,
                            .span = span,
                            .begin_unix_nano = sample.timestamps[at],
                            .length_ns = sample.values[at],
                            .ended = ended};
    if (stay.end_unix_nano() < stay.begin_unix_nano) throw Malformed("a span's time on a thread ends after all time");
    into.stays.push_back(stay);
  }
}

template <typename Take>
void for_each_sample(std::string_view profile, Take take) {
  Fields sample;
  pbf_reader field(profile.data(), profile.size());
  while (field.next()) {
    if (field.tag() == otlp::profile::kSamples) {
      read_fields(read_message(field), sample);
      take(sample);
    } else {
      field.skip();
    }
  }
}

}  // namespace

void read_samples(std::string_view profile, const ProfileHead& head, std::uint32_t process, Tables& tables,
                  Recording& into) {
  const std::size_t process_text_bytes = text_bytes(into.processes()[process]);
  if (is_span_time(head.sample_type)) {
    for_each_sample(profile, [&](const Fields& sample) {
      tables.charge(process_text_bytes);
      add_stays(sample, process, head.ended, tables, into);
    });
    return;
  }
  const auto meaning = meaning_of(head);
  if (!meaning) {
    constexpr std::size_t kMostTypes = 16;  // to tell of; a file may have one for each of its profiles
    auto& skipped = into.skipped_types;
    const auto& type = head.sample_type.type;
    if (skipped.size() >= kMostTypes) return;
    if (std::find(skipped.begin(), skipped.end(), type) == skipped.end()) skipped.emplace_back(type);
    return;
  }
  for_each_sample(profile, [&](const Fields& sample) {
    const Cost cost = cost_of(*meaning, sample);
    if (cost == Cost{}) return;
    tables.charge(process_text_bytes);
    into.entries.push_back({.process = process,
                            .span = tables.span(sample.link),
                            .stack = tables.stack(sample.stack),
                            .kind = meaning->kind,
                            .cost = cost});
  });
}

}  // namespace spanfold::report
