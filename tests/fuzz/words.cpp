// SPDX-License-Identifier: Apache-2.0
// What stands on a command line: durations, sizes, queries.
#include <limits>

#include "base/clock.h"
#include "fuzz/fuzz.h"
#include "report/query.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spanfold;
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto duration = parse_duration_ns(text);
  fuzz::check(!duration || *duration <= kMost, "a duration is in range");
  fuzz::check(duration || duration.error().failure == Failure::kUsage, "else it is the user's mistake");
  const auto bytes = parse_size_bytes(text);
  fuzz::check(!bytes || *bytes <= kMost, "a size is in range");
  report::Options options;
  options.spans = {text};
  const auto span = report::parse_query(options);
  fuzz::check(!span || text.size() == 16, "a span's id has all its digits");
  options.spans = {};
  options.traces = {text};
  const auto trace = report::parse_query(options);
  fuzz::check(!trace || text.size() == 32, "so has a trace's");
  options.traces = {};
  options.by = options.format = options.kind = text;
  fuzz::check(!report::parse_query(options), "no word is good for all three");
  return 0;
}
