// SPDX-License-Identifier: Apache-2.0
// Files that others wrote, and files that nobody should have written.
#include <doctest/doctest.h>

#include <protozero/pbf_writer.hpp>

#include "profile/otlp_fields.h"
#include "report/decode.h"
#include "unit/profile/windows.h"

namespace spanfold::report {
namespace {

namespace otlp = profile::otlp;
using profile::EncoderOptions;
using protozero::pbf_writer;

// A message as another producer might write it: profiles first, one stack, one link.
struct Foreign {
  std::vector<std::int64_t> values;
  std::vector<std::uint64_t> timestamps;
  std::string type = "samples", unit = "count";
  std::int64_t period = 0;
  std::uint32_t stack_index = 1;
  std::uint32_t link_index = 1;
  std::uint64_t memory_start = 0x7f0000000000;
  std::string trace_id = std::string(16, '\1');

  [[nodiscard]] std::string bytes() const {
    std::string out;
    pbf_writer data(out);
    {
      pbf_writer process(data, otlp::profiles_data::kResourceProfiles);
      pbf_writer scoped(process, otlp::resource_profiles::kScopeProfiles);
      pbf_writer profile(scoped, otlp::scope_profiles::kProfiles);
      {
        pbf_writer sample(profile, otlp::profile::kSamples);
        sample.add_uint32(otlp::sample::kStackIndex, stack_index);
        sample.add_uint32(otlp::sample::kLinkIndex, link_index);
        sample.add_packed_int64(otlp::sample::kValues, values.begin(), values.end());
        sample.add_packed_fixed64(otlp::sample::kTimestampsUnixNano, timestamps.begin(), timestamps.end());
      }
      {
        pbf_writer value_type(profile, otlp::profile::kSampleType);
        value_type.add_uint32(otlp::value_type::kType, 1);
        value_type.add_uint32(otlp::value_type::kUnit, 2);
      }
      {
        pbf_writer period_type(profile, otlp::profile::kPeriodType);
        period_type.add_uint32(otlp::value_type::kUnit, 3);
      }
      profile.add_int64(otlp::profile::kPeriod, period);
    }
    add_dictionary(data);
    return out;
  }

  void add_dictionary(pbf_writer& data) const {
    pbf_writer rows(data, otlp::profiles_data::kDictionary);
    for (const std::string& text :
         {std::string(), type, unit, std::string("nanoseconds"), std::string("/lib/libfoo.so")}) {
      rows.add_string(otlp::dictionary::kString, text);
    }
    rows.add_message(otlp::dictionary::kStack, std::string());
    pbf_writer(rows, otlp::dictionary::kStack).add_uint32(otlp::stack::kLocationIndices, 1);  // unpacked
    rows.add_message(otlp::dictionary::kLocation, std::string());
    {
      pbf_writer location(rows, otlp::dictionary::kLocation);
      location.add_uint32(otlp::location::kMappingIndex, 1);
      location.add_uint64(otlp::location::kAddress, 0x7f0000000123);
    }
    rows.add_message(otlp::dictionary::kMapping, std::string());
    {
      pbf_writer mapping(rows, otlp::dictionary::kMapping);
      mapping.add_uint64(otlp::mapping::kMemoryStart, memory_start);
      mapping.add_uint64(otlp::mapping::kMemoryLimit, memory_start + 0x1000);
      mapping.add_uint64(otlp::mapping::kFileOffset, 0x4000);
      mapping.add_uint32(otlp::mapping::kFilename, 4);
    }
    rows.add_message(otlp::dictionary::kLink, std::string());
    pbf_writer link(rows, otlp::dictionary::kLink);
    link.add_bytes(otlp::link::kTraceId, trace_id);
    link.add_bytes(otlp::link::kSpanId, std::string(8, '\2'));
  }
};

std::string error_of(std::string_view bytes) {
  Recording recording;
  const auto decoded = decode(bytes, "file", false, recording);
  return decoded ? "" : decoded.error().message();
}

Entry entry_of(const Foreign& foreign) {
  Recording recording;
  const auto decoded = decode(foreign.bytes(), "file", false, recording);
  REQUIRE_MESSAGE(decoded, (decoded ? "" : decoded.error().message()));
  REQUIRE(recording.entries.size() == 1);
  return recording.entries.front();
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

TEST_CASE("profiles of other producers") {
  Recording recording;
  REQUIRE(decode(Foreign{.values = {}, .timestamps = {1, 2, 3}, .period = 50}.bytes(), "file", false, recording));
  REQUIRE(recording.entries.size() == 1);
  CHECK(recording.entries.front().cost == Cost{.count = 3, .ns = 150});
  CHECK(recording.spans()[recording.entries.front().span].span_id.front() == 2);
  CHECK(recording.frames()[recording.stack(recording.entries.front().stack).front()] == "libfoo.so+0x4123");
  CHECK_FALSE(recording.accounting);
  CHECK_FALSE(recording.frequency_hz());

  CHECK(entry_of({.values = {4}, .timestamps = {}}).cost == Cost{.count = 4, .ns = 0});
  CHECK(entry_of({.values = {4, 5}, .timestamps = {1, 2}}).cost.count == 9);
  CHECK(entry_of({.values = {30, 70}, .timestamps = {1, 2}, .type = "off_cpu", .unit = "nanoseconds"}).kind ==
        Kind::kBlocked);
  CHECK(entry_of({.values = {30, 70}, .timestamps = {1, 2}, .type = "off_cpu", .unit = "nanoseconds"}).cost ==
        Cost{.count = 2, .ns = 100});
  CHECK(entry_of({.values = {100}, .timestamps = {}, .type = "cpu", .unit = "nanoseconds", .period = 50}).cost ==
        Cost{.count = 2, .ns = 100});
  CHECK(entry_of({.values = {1}, .timestamps = {}, .link_index = 0}).span == 0);

  Recording timed;
  REQUIRE(decode(Foreign{.values = {30}, .timestamps = {1}, .type = "span_thread_time", .unit = "nanoseconds"}.bytes(),
                 "file", false, timed));
  CHECK(timed.entries.empty());
  CHECK(timed.skipped_types.empty());
  REQUIRE(timed.stays.size() == 1);
  CHECK(timed.stays.front().end_unix_nano() == 31);
  CHECK_FALSE(timed.stays.front().ended);
  CHECK_FALSE(timed.accounting);
  Recording of_none;
  REQUIRE(decode(
      Foreign{.values = {30}, .timestamps = {1}, .type = "span_thread_time", .unit = "nanoseconds", .link_index = 0}
          .bytes(),
      "file", false, of_none));
  CHECK(of_none.stays.empty());

  Recording allocations;
  REQUIRE(decode(Foreign{.values = {1}, .timestamps = {}, .type = "alloc_space", .unit = "bytes"}.bytes(), "file",
                 false, allocations));
  CHECK(allocations.entries.empty());
  CHECK(allocations.skipped_types == std::vector<std::string>{"alloc_space"});
}

TEST_CASE("wrong files get one line that says what is wrong") {
  CHECK(contains(error_of(""), "it is empty"));
  CHECK(contains(error_of("\x1f\x8b\x08rest"), "gunzip"));
  CHECK(contains(error_of("this is no profile\n"), "OTLP ProfilesData"));
  CHECK(contains(error_of("{\"resourceProfiles\": []}"), "OTLP ProfilesData"));
  CHECK(contains(error_of(std::string("\x1a\x00", 2)), "holds no profiles"));
  CHECK(contains(error_of(std::string("\x08\x01", 2)), "wire type"));
  CHECK(contains(error_of("\x0a\xff\xff\xff\xff\x0f"), "middle of a field"));
  CHECK(contains(error_of(Foreign{.values = {1}, .timestamps = {}, .stack_index = 9}.bytes()),
                 "outside the stack table of 2 rows"));
  CHECK(
      contains(error_of(Foreign{.values = {1}, .timestamps = {}, .link_index = 2}.bytes()), "outside the link table"));
  CHECK(contains(error_of(Foreign{.values = {1}, .timestamps = {}, .trace_id = "short"}.bytes()), "id of 5 bytes"));
  CHECK(contains(error_of(Foreign{.values = {1, 2}, .timestamps = {1}}.bytes()), "2 values for 1 timestamps"));
  CHECK(contains(error_of(Foreign{.values = {-1}, .timestamps = {}}.bytes()), "negative"));
  CHECK(contains(error_of(Foreign{.values = {1}, .timestamps = {}, .period = -5}.bytes()), "negative period"));
  const auto span_time = [](std::vector<std::int64_t> values, std::vector<std::uint64_t> timestamps) {
    return error_of(Foreign{.values = std::move(values),
                            .timestamps = std::move(timestamps),
                            .type = "span_thread_time",
                            .unit = "nanoseconds"}
                        .bytes());
  };
  CHECK(span_time({3, 4}, {1, 9}).empty());
  CHECK(contains(span_time({3}, {1, 9}), "1 times on threads that begin at 2 instants"));
  CHECK(contains(span_time({3}, {}), "1 times on threads that begin at 0 instants"));
  CHECK(contains(span_time({-3}, {1}), "negative"));
  CHECK(contains(span_time({INT64_MAX, 1}, {1, 2}), "too large"));
  CHECK(contains(span_time({INT64_MAX}, {UINT64_MAX - 5}), "after all time"));
}

TEST_CASE("stacks that expand without end are refused") {
  std::string bytes;
  pbf_writer data(bytes);
  const std::string first = Foreign{.values = {1}, .timestamps = {}}.bytes();
  {
    pbf_writer rows(data, otlp::profiles_data::kDictionary);
    rows.add_message(otlp::dictionary::kLocation, std::string());
    {
      pbf_writer location(rows, otlp::dictionary::kLocation);
      for (int line = 0; line < 3000; ++line)
        pbf_writer(location, otlp::location::kLines).add_uint32(otlp::line::kFunctionIndex, 1);
    }
    rows.add_message(otlp::dictionary::kFunction, std::string());
    pbf_writer(rows, otlp::dictionary::kFunction).add_uint32(otlp::function::kName, 1);
    rows.add_message(otlp::dictionary::kStack, std::string());
    const std::vector<std::uint32_t> deep(3000, 1);
    pbf_writer(rows, otlp::dictionary::kStack)
        .add_packed_uint32(otlp::stack::kLocationIndices, deep.begin(), deep.end());
  }
  CHECK(contains(error_of(bytes + first), "expand to more frames"));
}

TEST_CASE("a torn tail is left out only where it is expected") {
  profile::test::World world;
  std::mt19937 random(1);
  std::vector<profile::Window> windows;
  for (std::uint64_t number = 0; number < 3; ++number) {
    windows.push_back(profile::test::random_window(world, random, number));
  }
  const std::string whole = profile::test::encode(windows, EncoderOptions::Mode::kIncrements);
  std::size_t last = 0;
  for (std::size_t size = 1; size < whole.size(); ++size) {
    Recording recording;
    const auto decoded = decode(std::string_view(whole).substr(0, size), "file.part", true, recording);
    REQUIRE_MESSAGE(decoded, (decoded ? "" : decoded.error().message()));
    REQUIRE(recording.entries.size() >= last);
    last = recording.entries.size();
  }
}

TEST_CASE("no cut and no flipped bit crashes") {
  profile::test::World world;
  std::mt19937 random(2);
  const std::vector<profile::Window> windows = {profile::test::random_window(world, random, 0),
                                                profile::test::random_window(world, random, 1)};
  const std::string whole = profile::test::encode(windows, EncoderOptions::Mode::kIncrements);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    Recording recording;
    (void)static_cast<bool>(decode(std::string_view(whole).substr(0, size), "file", false, recording));
  }
  for (int round = 0; round < 100'000; ++round) {
    std::string flipped = whole;
    for (auto left = 1 + random() % 3; left > 0; --left) {
      flipped[random() % flipped.size()] = static_cast<char>(random());
    }
    Recording recording;
    const auto decoded = decode(flipped, "file", round % 2 == 0, recording);
    if (!decoded) REQUIRE(decoded.error().failure == Failure::kFailed);
  }
}

}  // namespace spanfold::report
