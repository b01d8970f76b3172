// SPDX-License-Identifier: Apache-2.0
// Small files that refer to long rows again and again: they must cost what their size says, in time and in memory.
#include <doctest/doctest.h>

#include <chrono>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <vector>

#include "profile/otlp_fields.h"
#include "report/decode.h"
#include "report/group.h"
#include "report/render.h"

namespace spanfold::report {
namespace {

namespace otlp = profile::otlp;
using protozero::pbf_writer;

constexpr double kSoonSeconds = 10;
constexpr std::size_t kLong = 1UL << 19;
constexpr std::uint32_t kTimes = 100'000;

struct Outcome {
  std::string error;
  double seconds = 0;
};

Outcome outcome_of(const std::string& bytes, Recording& recording) {
  const auto begin = std::chrono::steady_clock::now();
  const auto decoded = decode(bytes, "file", false, recording);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return {decoded ? "" : decoded.error().message(), took.count()};
}

Outcome outcome_of(const std::string& bytes) {
  Recording recording;
  return outcome_of(bytes, recording);
}

// A row that says nothing in many fields, each of which has to be looked at.
std::string long_row() {
  std::string row;
  pbf_writer writer(row);
  while (row.size() < kLong) writer.add_uint32(99, 1);
  return row;
}

// One profile of one sample: a stack of the locations named, attributes as named.
struct File {
  std::vector<std::uint32_t> attributes;
  std::vector<std::uint32_t> frames;
  std::uint32_t samples = 1;
  std::string name = "f";
  std::string attribute_row, function_row, mapping_row;
  std::uint32_t locations = 1;
  std::uint32_t lines = 1;  // of each location; 0: it has a mapping only

  [[nodiscard]] std::string bytes() const {
    std::string out;
    pbf_writer data(out);
    {
      pbf_writer resource(data, otlp::profiles_data::kResourceProfiles);
      pbf_writer scope(resource, otlp::resource_profiles::kScopeProfiles);
      pbf_writer profile(scope, otlp::scope_profiles::kProfiles);
      for (std::uint32_t i = 0; i < samples; ++i) {
        pbf_writer sample(profile, otlp::profile::kSamples);
        sample.add_uint32(otlp::sample::kStackIndex, 1);
        const std::uint64_t one = 1;
        sample.add_packed_uint64(otlp::sample::kValues, &one, &one + 1);
      }
      profile.add_packed_uint32(otlp::profile::kAttributeIndices, attributes.begin(), attributes.end());
    }
    add_dictionary(data);
    return out;
  }

 private:
  void add_dictionary(pbf_writer& data) const {
    pbf_writer rows(data, otlp::profiles_data::kDictionary);
    for (const std::string& text : {std::string(), name, std::string("/lib/a.so")}) {
      rows.add_string(otlp::dictionary::kString, text);
    }
    for (const std::string& row : {std::string(), attribute_row}) rows.add_bytes(otlp::dictionary::kAttribute, row);
    rows.add_bytes(otlp::dictionary::kFunction, "");
    std::string function = function_row;
    pbf_writer(function).add_uint32(otlp::function::kName, 1);
    rows.add_bytes(otlp::dictionary::kFunction, function);
    rows.add_bytes(otlp::dictionary::kMapping, "");
    std::string mapping = mapping_row;
    pbf_writer(mapping).add_uint32(otlp::mapping::kFilename, 2);
    rows.add_bytes(otlp::dictionary::kMapping, mapping);
    rows.add_bytes(otlp::dictionary::kLocation, "");
    for (std::uint32_t i = 0; i < locations; ++i) {
      pbf_writer location(rows, otlp::dictionary::kLocation);
      location.add_uint32(otlp::location::kMappingIndex, 1);
      location.add_uint32(otlp::location::kAddress, i);
      for (std::uint32_t at = 0; at < lines; ++at) {
        pbf_writer(location, otlp::location::kLines).add_uint32(otlp::line::kFunctionIndex, 1);
      }
    }
    rows.add_bytes(otlp::dictionary::kStack, "");
    pbf_writer stack(rows, otlp::dictionary::kStack);
    stack.add_packed_uint32(otlp::stack::kLocationIndices, frames.begin(), frames.end());
  }
};

std::vector<std::uint32_t> each_up_to(std::uint32_t count) {
  std::vector<std::uint32_t> numbers(count);
  for (std::uint32_t i = 0; i < count; ++i) numbers[i] = i + 1;
  return numbers;
}

}  // namespace

TEST_CASE("bombs: a long row is read once, however many refer to it") {
  File file{.frames = {1}};
  SUBCASE("an attribute") {
    file.attributes.assign(kTimes, 1);
    file.attribute_row = long_row();
  }
  SUBCASE("a function, by the lines of one location") {
    file.lines = kTimes;
    file.function_row = long_row();
  }
  SUBCASE("a mapping, by many locations") {
    file.frames = each_up_to(kTimes);
    file.locations = kTimes;
    file.lines = 0;
    file.mapping_row = long_row();
  }
  const Outcome outcome = outcome_of(file.bytes());
  CHECK(outcome.error.empty());
  CHECK(outcome.seconds < kSoonSeconds);
}

TEST_CASE("bombs: text that expands beyond what the file can mean is refused") {
  File file{.frames = {1}, .name = std::string(kLong, 'n')};
  SUBCASE("one stack of many frames") { file.frames.assign(kTimes, 1); }
  SUBCASE("many locations of one function") {
    file.locations = kTimes;
    file.frames = each_up_to(kTimes);
  }
  const Outcome outcome = outcome_of(file.bytes());
  CHECK(outcome.error.find("more text than a file of this size can mean") != std::string::npos);
  CHECK(outcome.seconds < kSoonSeconds);
}

TEST_CASE("bombs: many processes with one long name are refused") {
  std::string bytes;
  pbf_writer data(bytes);
  for (std::uint32_t pid = 1; pid < kTimes; ++pid) {
    pbf_writer of_process(data, otlp::profiles_data::kResourceProfiles);
    pbf_writer resource(of_process, otlp::resource_profiles::kResource);
    {
      pbf_writer attribute(resource, otlp::resource::kAttributes);
      attribute.add_string(otlp::key_value::kKey, "process.pid");
      pbf_writer(attribute, otlp::key_value::kValue).add_int64(otlp::any_value::kInt, pid);
    }
    pbf_writer attribute(resource, otlp::resource::kAttributes);
    attribute.add_string(otlp::key_value::kKey, "service.name");
    pbf_writer(attribute, otlp::key_value::kValue).add_uint32(otlp::any_value::kStringStrindex, 1);
  }
  {
    pbf_writer rows(data, otlp::profiles_data::kDictionary);
    rows.add_string(otlp::dictionary::kString, "");
    rows.add_string(otlp::dictionary::kString, std::string(kLong, 's'));
  }
  const Outcome outcome = outcome_of(bytes);
  CHECK(outcome.error.find("more text than a file of this size can mean") != std::string::npos);
  CHECK(outcome.seconds < kSoonSeconds);
}

TEST_CASE("bombs: of very many types that report does not know, it tells some") {
  std::string bytes;
  pbf_writer data(bytes);
  {
    pbf_writer resource(data, otlp::profiles_data::kResourceProfiles);
    pbf_writer scope(resource, otlp::resource_profiles::kScopeProfiles);
    for (std::uint32_t i = 1; i <= kTimes; ++i) {
      pbf_writer profile(scope, otlp::scope_profiles::kProfiles);
      pbf_writer(profile, otlp::profile::kSampleType).add_uint32(otlp::value_type::kType, i);
      profile.add_bytes(otlp::profile::kSamples, "");
    }
  }
  {
    pbf_writer rows(data, otlp::profiles_data::kDictionary);
    for (std::uint32_t i = 0; i <= kTimes; ++i) rows.add_string(otlp::dictionary::kString, "type" + std::to_string(i));
  }
  Recording recording;
  const Outcome outcome = outcome_of(bytes, recording);
  CHECK(outcome.error.empty());
  CHECK(outcome.seconds < kSoonSeconds);
  CHECK(recording.skipped_types.size() == 16);
}

TEST_CASE("bombs: deep stacks of long names, in many samples, are honest") {
  File file{.frames = std::vector<std::uint32_t>(200, 1), .samples = 2'000, .name = std::string(100, 'n')};
  Recording recording;
  CHECK(outcome_of(file.bytes(), recording).error.empty());
  CHECK(recording.entries.size() == 2'000);
}

}  // namespace spanfold::report
