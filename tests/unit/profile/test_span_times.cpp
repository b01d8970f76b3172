// SPDX-License-Identifier: Apache-2.0
// Profiles of spans' times: what they cost, what they hold, where the accounting is beside them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "profile/encoder.h"
#include "profile/span_times.h"
#include "profile/stays.h"
#include "report/decode.h"
#include "unit/profile/windows.h"

namespace spanfold::profile {
namespace {

using Mode = EncoderOptions::Mode;
using test::span_of;
using test::span_time;
// (pid, span, begin, length, ended)
using Timed = std::tuple<std::int64_t, SpanContext, std::uint64_t, std::uint64_t, bool>;

constexpr std::uint64_t kStart = 1'700'000'000'000'000'000;  // of test::window(0, …)
constexpr std::uint64_t kSecond = 1'000'000'000;

Window timed_window(std::vector<SpanTime> times) {
  Window window = test::window(0, 0, 0);
  window.processes.push_back({.resource = test::process(1, "shop"), .on_cpu = {}, .span_times = std::move(times)});
  return window;
}

report::Recording decoded(std::string_view bytes) {
  report::Recording recording;
  const auto result = report::decode(bytes, "test", false, recording);
  REQUIRE_MESSAGE(result, (result ? "" : result.error().message()));
  return recording;
}

std::vector<Timed> timed(const report::Recording& recording) {
  std::vector<Timed> found;
  for (const report::TimedStay& stay : recording.stays) {
    found.emplace_back(*recording.processes()[stay.process].pid, recording.spans()[stay.span], stay.begin_unix_nano,
                       stay.length_ns, stay.ended);
  }
  return found;
}

std::vector<Timed> timed(const std::vector<Window>& windows) {
  std::vector<Timed> expected;
  for (const Window& window : windows) {
    for (const ProcessSamples& process : window.processes) {
      for (const SpanTime& time : process.span_times) {
        for (const Stay& stay : time.stays) {
          expected.emplace_back(std::get<std::int64_t>(process.resource[1].second), time.span, stay.begin_unix_nano,
                                stay.length_ns, time.ended);
        }
      }
    }
  }
  return expected;
}

std::vector<Timed> sorted(std::vector<Timed> all) {
  std::sort(all.begin(), all.end());
  return all;
}

std::size_t occurrences(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// A process with this many spans of one stay each, as long as such a stay may be.
std::string many_spans(std::uint32_t count, Mode mode) {
  std::vector<SpanTime> times;
  for (std::uint32_t number = 1; number <= count; ++number) {
    SpanTime time = span_time(1, true, {{kStart + number, 30 * kSecond - number}});
    for (std::size_t byte = 0; byte < sizeof(number); ++byte) {
      time.span.span_id[byte] = static_cast<std::uint8_t>(number >> (8 * byte));
    }
    times.push_back(time);
  }
  Window window = timed_window(std::move(times));
  window.duration_ns = 60 * kSecond;
  return test::encode({window}, mode);
}

}  // namespace

TEST_CASE("a span with one stay costs at most 24 bytes beyond its link") {
  constexpr std::size_t kLinkBytes = 2 + 2 + 16 + 2 + 8;
  for (const Mode mode : {Mode::kMessages, Mode::kIncrements}) {
    for (const std::uint32_t before : {1U, 20'001U}) {
      const std::size_t more = many_spans(before + 1000, mode).size() - many_spans(before, mode).size();
      CHECK(more > 1000 * kLinkBytes);
      CHECK(more <= 1000 * (kLinkBytes + 24));
    }
  }
}

TEST_CASE("what is encoded is what is decoded, and costs nothing") {
  std::mt19937 random(23);
  for (int round = 0; round < 60; ++round) {
    test::World world;
    std::vector<Window> windows;
    Accounting accounting;
    for (std::uint64_t number = 0; number < 1 + random() % 4; ++number) {
      windows.push_back(test::random_window(world, random, number));
      accounting += windows.back().accounting;
    }
    const report::Recording whole = decoded(test::encode(windows, Mode::kIncrements));
    REQUIRE(sorted(timed(whole)) == sorted(timed(windows)));
    REQUIRE(whole.accounting == accounting);
    REQUIRE(whole.skipped_types.empty());
    report::Recording merged;
    std::uint64_t samples = 0;
    for (const Window& window : windows) {
      REQUIRE(report::decode(test::encode({window}, Mode::kMessages), "test", false, merged));
    }
    REQUIRE(sorted(timed(merged)) == sorted(timed(windows)));
    for (const report::Entry& entry : merged.entries) samples += entry.cost.count;
    REQUIRE(samples == accounting.in_span + accounting.background);
  }
}

TEST_CASE("ended spans and others are two profiles, each sorted by span") {
  const Window window = timed_window({span_time(3, true, {{kStart + 5, 6}}), span_time(2, false, {{kStart + 1, 2}}),
                                      span_time(1, true, {{kStart + 3, 4}, {kStart + 8, 9}})});
  CHECK(timed(decoded(test::encode({window}, Mode::kMessages))) ==
        std::vector<Timed>{{1, span_of(1), kStart + 3, 4, true},
                           {1, span_of(1), kStart + 8, 9, true},
                           {1, span_of(3), kStart + 5, 6, true},
                           {1, span_of(2), kStart + 1, 2, false}});
}

TEST_CASE("golden bytes of a span's time") {
  const std::string bytes =
      test::encode({timed_window({span_time(1, true, {{0x1797'9cfe'362a'0001, 300}})})}, Mode::kMessages);
  // {link 1, values [300], timestamps [begin]}
  const std::string_view sample("\x12\x10\x18\x01\x22\x02\xac\x02\x2a\x08\x01\x00\x2a\x36\xfe\x9c\x97\x17", 18);
  CHECK(bytes.find(sample) != std::string::npos);
  CHECK(occurrences(bytes, "span_thread_time") == 1);
  CHECK(occurrences(bytes, "spanfold.ended") == 1);
}

TEST_CASE("stays are cut at the window, and never to nothing") {
  const std::uint64_t end = kStart + kSecond;
  const Window window =
      timed_window({span_time(1, true, {{kStart - 10, 15}, {end - 3, 10}}), span_time(2, true, {{kStart - 10, 3}}),
                    span_time(3, true, {{end, 0}}), span_time(4, true, {{end + 50, 7}}),
                    span_time(5, true, {{0, UINT64_MAX}}), span_time(6, true, {{UINT64_MAX, UINT64_MAX}})});
  CHECK(timed(decoded(test::encode({window}, Mode::kMessages))) ==
        std::vector<Timed>{{1, span_of(1), kStart, 5, true},
                           {1, span_of(1), end - 3, 3, true},
                           {1, span_of(2), kStart, 1, true},
                           {1, span_of(3), end - 1, 1, true},
                           {1, span_of(4), end - 1, 1, true},
                           {1, span_of(5), kStart, kSecond, true},
                           {1, span_of(6), end - 1, 1, true}});
}

TEST_CASE("a span is there once, with at most 64 stays, whatever the window says") {
  SpanTime many = span_time(1, false, {});
  for (std::uint64_t at = 0; at < 100; ++at) many.stays.push_back({kStart + (99 - at) * 5'000'000, 1000 + at});
  Window window = timed_window({many, span_time(2, false, {{kStart + 5, 6}}), span_time(0, true, {{kStart, 1}})});
  window.processes.push_back({.resource = test::process(1, "shop"),
                              .on_cpu = {},
                              .span_times = {span_time(2, true, {{kStart + 9'000'000, 6}}), span_time(3, true, {})}});
  const report::Recording recording = decoded(test::encode({window}, Mode::kMessages));
  std::map<SpanContext, std::pair<std::uint64_t, std::uint64_t>> found;  // stays, length
  for (const auto& [pid, span, begin, length, ended] : timed(recording)) {
    found[span].first += 1;
    found[span].second += length;
    CHECK(ended == (span == span_of(2)));  // the later of its two said so
  }
  CHECK(found == decltype(found){{span_of(1), {64, 104'950}}, {span_of(2), {2, 12}}});
}

TEST_CASE("the accounting is on the first on-CPU profile, and there is always one") {
  test::World world;
  const std::vector<SpanTime> times = {span_time(1, true, {{kStart, 5}})};
  const std::vector<Sample> samples = {{.frames = world.stack({world.frame("f")}), .span = span_of(2), .value = 3}};
  // Process 1 has times only, process 2 samples too: no on-CPU profile for 1.
  Window window = test::window(0, 3, 0);
  window.processes.push_back({.resource = test::process(1, "a"), .on_cpu = {}, .span_times = times});
  window.processes.push_back({.resource = test::process(2, "b"), .on_cpu = samples, .span_times = times});
  const std::string both = test::encode({window}, Mode::kMessages);
  CHECK(decoded(both).accounting == window.accounting);
  // Times only: the first process has an empty on-CPU profile.
  window.processes[1].on_cpu.clear();
  window.accounting = test::window(0, 0, 0).accounting;
  const std::string none = test::encode({window}, Mode::kMessages);
  const report::Recording recording = decoded(none);
  CHECK(recording.accounting == window.accounting);
  CHECK(recording.frequency_hz() == 99U);
  CHECK(recording.entries.empty());
  CHECK(recording.stays.size() == 2);
  // Ids, 16 bytes each, of one on-CPU profile and two of times.
  CHECK(occurrences(both, std::string_view("\x3a\x10", 2)) == 3);
  CHECK(occurrences(none, std::string_view("\x3a\x10", 2)) == 3);
}

}  // namespace spanfold::profile
