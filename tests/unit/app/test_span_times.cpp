// SPDX-License-Identifier: Apache-2.0
// Pieces of stays to span times: where they lie in Unix time and in the window, and when a span counts as ended.
#include <doctest/doctest.h>

#include "app/span_times.h"
#include "bpf/abi.h"
#include "profile/stays.h"

using spanfold::BootToUnix;
using spanfold::ProcessKey;
using spanfold::SpanContext;
using spanfold::app::SpanTimes;
using spanfold::app::WindowTime;
using spanfold::bpf::Bank;
using spanfold::bpf::FoldDelta;
using spanfold::profile::SpanTime;
using spanfold::profile::Stay;

// No room sees both; what is one stay in the kernel must be one in a file.
static_assert(spanfold::profile::kLingerNs == SF_LINGER_NS);

namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kUnix = 1'700'000'000'000'000'000;
constexpr ProcessKey kProcess{.start_boottime_ns = 5, .pid = 100, .exec_id = 1};
// From 10 s to 15 s after boot.
const WindowTime kWindow(10'000 * kMs, 15'000 * kMs, BootToUnix(kUnix), 0);

SpanContext span_of(std::uint8_t number) {
  SpanContext span;
  span.trace_id[0] = 1;
  span.span_id[0] = number;
  return span;
}

struct Piece {
  std::uint8_t span = 1;
  std::uint32_t tid = 7;
  std::uint64_t first_ms = 0;
  std::uint64_t last_ms = 0;
  bool gone = false;
  bool end_seen = false;
  bool switched = false;
};

FoldDelta delta(const Piece& piece) {
  return {.span = span_of(piece.span),
          .process = kProcess,
          .tid = piece.tid,
          .first_boottime_ns = piece.first_ms * kMs,
          .last_boottime_ns = piece.last_ms * kMs,
          .on_thread_ns = (piece.last_ms - piece.first_ms) * kMs,
          .end_seen = piece.end_seen,
          .gone = piece.gone,
          .switched = piece.switched};
}

FoldDelta ended(const Piece& piece) {
  FoldDelta fold = delta(piece);
  fold.gone = fold.end_seen = true;
  return fold;
}

std::vector<SpanTime> spans_of(SpanTimes& times, const Bank& bank = {}, const WindowTime& window = kWindow) {
  auto processes = times.window(bank, window);
  return processes.empty() ? std::vector<SpanTime>() : processes.begin()->second;
}

bool one_ended(const std::vector<FoldDelta>& folds, const Bank& bank = {}) {
  SpanTimes times;
  for (const FoldDelta& fold : folds) times.add(fold, false);
  const auto spans = spans_of(times, bank);
  REQUIRE(spans.size() == 1);
  return spans[0].ended;
}

}  // namespace

TEST_CASE("stays are given in Unix time, sorted by span") {
  SpanTimes times;
  times.add(ended({.span = 2, .first_ms = 11'000, .last_ms = 11'500}), false);
  times.add(ended({.span = 1, .first_ms = 12'000, .last_ms = 12'001}), false);
  times.add(ended({.span = 1, .tid = 8, .first_ms = 11'000, .last_ms = 13'000}), false);
  const auto spans = spans_of(times);
  REQUIRE(spans.size() == 2);
  CHECK(spans[0].span == span_of(1));
  CHECK(spans[0].stays == std::vector<Stay>{{kUnix + 11'000 * kMs, 2'000 * kMs}, {kUnix + 12'000 * kMs, kMs}});
  CHECK(spans[1].stays == std::vector<Stay>{{kUnix + 11'000 * kMs, 500 * kMs}});
  CHECK(spans_of(times).empty());
}

TEST_CASE("what is of the next window waits for it, and work outside of spans has no times") {
  SpanTimes times;
  times.add(ended({.first_ms = 11'000, .last_ms = 11'500}), true);
  FoldDelta outside = ended({.first_ms = 11'000, .last_ms = 11'500});
  outside.span = {};
  times.add(outside, false);
  times.add(delta({.first_ms = 11'000, .last_ms = 11'000}), false);  // slots only
  CHECK(spans_of(times).empty());
  CHECK(spans_of(times).size() == 1);
}

TEST_CASE("processes are apart, also before and after exec") {
  SpanTimes times;
  FoldDelta before = delta({.first_ms = 11'000, .last_ms = 11'500});
  FoldDelta after = ended({.first_ms = 11'500, .last_ms = 12'000});
  after.process.exec_id = 2;
  times.add(before, false);
  times.add(after, false);
  const auto processes = times.window({}, kWindow);
  REQUIRE(processes.size() == 2);
  CHECK(!processes.at(before.process)[0].ended);
  CHECK(processes.at(after.process)[0].ended);
}

TEST_CASE("a span has ended where its end was seen on every thread, and no thread carries it") {
  const Piece stay{.first_ms = 11'000, .last_ms = 12'000};
  CHECK(one_ended({ended(stay)}));
  CHECK(!one_ended({delta(stay)}));
  CHECK(!one_ended({delta({.first_ms = 11'000, .last_ms = 12'000, .gone = true})}));      // nobody saw when
  CHECK(!one_ended({delta({.first_ms = 11'000, .last_ms = 12'000, .end_seen = true})}));  // under a nested one
  const FoldDelta other = delta({.tid = 8, .first_ms = 11'000, .last_ms = 11'500});
  CHECK(!one_ended({ended(stay), other}));
  CHECK(one_ended({ended(stay), ended({.tid = 8, .first_ms = 11'000, .last_ms = 11'500})}));
  // What a thread said last counts, in whatever order it came.
  CHECK(one_ended({delta({.first_ms = 10'500, .last_ms = 10'900}), ended(stay)}));
  CHECK(one_ended({ended(stay), delta({.first_ms = 10'500, .last_ms = 10'900})}));
  CHECK(!one_ended({ended(stay), delta({.first_ms = 12'500, .last_ms = 12'900})}));
  CHECK(!one_ended({ended(stay)}, {.carried = {span_of(0), span_of(1)}}));
  CHECK(one_ended({ended(stay)}, {.carried = {span_of(0), span_of(2)}}));
}

TEST_CASE("where a change may have gone unseen, the span may have come back") {
  const FoldDelta stay = ended({.first_ms = 11'000, .last_ms = 12'000});
  CHECK(one_ended({stay}, {}));
  CHECK(!one_ended({stay}, {.blind = true}));
  // Misses count for one flush, and may blind two.
  CHECK(one_ended({stay}, {.recursion_misses = 3}));
  CHECK(!one_ended({stay}, {.recursion_misses = 0, .blind = true}));
}

TEST_CASE("a stay that was switched out in an earlier window that was blind may have missed a hook") {
  for (const bool switched : {false, true}) {
    SpanTimes times;
    CHECK(spans_of(times, {.blind = true}).empty());
    times.add(ended({.first_ms = 11'000, .last_ms = 16'000, .switched = switched}), false);
    const auto spans = spans_of(times, {}, {15'000 * kMs, 20'000 * kMs, BootToUnix(kUnix), 0});
    REQUIRE(spans.size() == 1);
    CHECK(spans.front().ended == !switched);
  }
}

TEST_CASE("an end without time on the thread marks the end of the stay before") {
  FoldDelta mark = ended({.first_ms = 13'000, .last_ms = 13'000});
  CHECK(one_ended({delta({.first_ms = 11'000, .last_ms = 12'000}), mark}));
  SpanTimes times;
  times.add(delta({.first_ms = 11'000, .last_ms = 12'000}), false);
  times.add(mark, false);
  const auto spans = spans_of(times);
  CHECK(spans[0].stays.front().begin_unix_nano == kUnix + 11'000 * kMs);
  CHECK(spans[0].stays.back().begin_unix_nano + spans[0].stays.back().length_ns == kUnix + 13'000 * kMs);
  mark.end_seen = false;  // gone, nobody knows when: nothing to tell of
  times.add(mark, false);
  CHECK(spans_of(times).empty());
}

TEST_CASE("stays are cut at the window, and what came late is not lost") {
  SpanTimes times;
  times.add(delta({.span = 1, .first_ms = 9'000, .last_ms = 11'000}), false);
  times.add(delta({.span = 2, .first_ms = 14'000, .last_ms = 16'000}), false);
  times.add(delta({.span = 3, .first_ms = 7'000, .last_ms = 8'000}), false);
  times.add(delta({.span = 4, .first_ms = 1'000, .last_ms = 9'000}), false);
  times.add(delta({.span = 5, .first_ms = 16'000, .last_ms = 17'000}), false);
  const auto spans = spans_of(times);
  REQUIRE(spans.size() == 5);
  CHECK(spans[0].stays == std::vector<Stay>{{kUnix + 10'000 * kMs, 1'000 * kMs}});
  CHECK(spans[1].stays == std::vector<Stay>{{kUnix + 14'000 * kMs, 1'000 * kMs}});
  CHECK(spans[2].stays == std::vector<Stay>{{kUnix + 10'000 * kMs, 1'000 * kMs}});
  CHECK(spans[3].stays == std::vector<Stay>{{kUnix + 10'000 * kMs, 5'000 * kMs}});
  CHECK(spans[4].stays == std::vector<Stay>{{kUnix + 15'000 * kMs, 1}});
}

TEST_CASE("in a time namespace the programs' clock is another") {
  // Our boot clock shows 100 s more than theirs.
  const std::int64_t shift_ns = -100'000 * static_cast<std::int64_t>(kMs);
  const WindowTime window(110'000 * kMs, 115'000 * kMs, BootToUnix(kUnix - 100'000 * kMs), shift_ns);
  SpanTimes times;
  times.add(ended({.first_ms = 11'000, .last_ms = 12'000}), false);
  const auto spans = spans_of(times, {}, window);
  REQUIRE(spans.size() == 1);
  CHECK(spans[0].stays == std::vector<Stay>{{kUnix + 11'000 * kMs, 1'000 * kMs}});
  CHECK(window.start_unix_nano() == kUnix + 10'000 * kMs);
}

TEST_CASE("a window has a length whatever somebody does to the clock") {
  const WindowTime before(10'000 * kMs, 15'000 * kMs, BootToUnix(kUnix), 0);
  const WindowTime stepped_back(15'000 * kMs, 20'000 * kMs, BootToUnix(kUnix - 3'600'000 * kMs), 0);
  CHECK(before.duration_ns() == 5'000 * kMs);
  CHECK(stepped_back.duration_ns() == 5'000 * kMs);
  CHECK(stepped_back.start_unix_nano() == before.start_unix_nano() + 5'000 * kMs - 3'600'000 * kMs);
  CHECK(WindowTime(2, 1, BootToUnix(0), 0).duration_ns() == 0);
}

TEST_CASE("spans beyond the bound are left out and counted, those that are in go on") {
  SpanTimes times(4);
  for (std::uint8_t span = 1; span <= 5; ++span) {
    times.add(delta({.span = span, .first_ms = 11'000, .last_ms = 11'100}), false);
    times.add(ended({.span = span, .first_ms = 11'100, .last_ms = 11'200}), false);
  }
  times.add(ended({.span = 1, .first_ms = 11'200, .last_ms = 11'300}), false);
  const auto spans = spans_of(times);
  REQUIRE(spans.size() == 2);
  CHECK(spans[0].stays == std::vector<Stay>{{kUnix + 11'000 * kMs, 300 * kMs}});
  CHECK(spans[1].stays == std::vector<Stay>{{kUnix + 11'000 * kMs, 200 * kMs}});
  CHECK(times.left_out() == 6);
  (void)times.window({}, kWindow);
  CHECK(times.left_out() == 0);
}

TEST_CASE("what a window was told of stays is counted, whatever the span, and each window for itself") {
  SpanTimes times;
  times.add(delta({.first_ms = 11'000, .last_ms = 11'100}), false);
  times.add(ended({.first_ms = 11'100, .last_ms = 11'200}), false);
  times.add(ended({.span = 2, .first_ms = 15'100, .last_ms = 15'200}), true);
  times.add(delta({.first_ms = 11'000, .last_ms = 11'000}), false);  // slots only: nothing to keep
  CHECK(times.told() == 2);
  (void)times.window({}, kWindow);
  CHECK(times.told() == 1);
  (void)times.window({}, kWindow);
  CHECK(times.told() == 0);
}
