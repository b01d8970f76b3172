// SPDX-License-Identifier: Apache-2.0
// From messages and banks to windows: what the kernel side counted is what a window holds.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "app/gather.h"
#include "unit/proc/fixture.h"

using spanfold::Frame;
using spanfold::ProcessKey;
using spanfold::SpanContext;
using spanfold::app::Background;
using spanfold::app::Gather;
using spanfold::app::WindowTime;
using spanfold::bpf::Bank;
using spanfold::bpf::WalkEnd;
using spanfold::profile::Window;

namespace {

constexpr WindowTime kTime(1'000, 2'000, spanfold::BootToUnix(5'000), 0);

// No process has this pid: its frames stay addresses.
constexpr ProcessKey kProcess{.start_boottime_ns = 5, .pid = 0x7ffffff0, .exec_id = 1};

SpanContext span_of(std::uint8_t number) {
  SpanContext span;
  span.trace_id[0] = 1;
  span.span_id[0] = number;
  return span;
}

void see(Gather& gather, std::uint64_t id, std::size_t frames = 3, WalkEnd end = WalkEnd::kBottom) {
  const std::vector<std::uint64_t> user(frames, 0x400000 + id);
  gather.on_stack({.stack_id = id, .process = kProcess, .user = user, .end = end});
}

void fold(Gather& gather, std::uint32_t epoch, std::uint8_t span, std::uint64_t stack, std::uint32_t samples) {
  gather.on_fold({.epoch = epoch,
                  .span = span == 0 ? SpanContext{} : span_of(span),
                  .process = kProcess,
                  .tid = 7,
                  .stacks = {{.stack_id = stack, .samples = samples}}});
}

// Samples by the first byte of their span and the word of their last frame ("" for one with an address).
using Sums = std::map<std::pair<int, std::string>, std::uint64_t>;
Sums sums_of(const Window& window) {
  Sums sums;
  for (const auto& process : window.processes) {
    for (const auto& sample : process.on_cpu) {
      REQUIRE(!sample.frames.empty());
      const Frame& root = sample.frames.back();
      sums[{sample.span.span_id[0], root.function == nullptr ? "" : *root.function}] += sample.value;
    }
  }
  return sums;
}

}  // namespace

TEST_CASE("deltas of a flush are in its window, those of the next epoch in the next") {
  Gather gather({});
  see(gather, 11);
  fold(gather, 0, 1, 11, 3);
  gather.begin_flush();
  fold(gather, 0, 1, 11, 2);
  fold(gather, 1, 2, 11, 5);
  CHECK(sums_of(gather.window({.epoch = 0, .ticks = 5, .in_span = 5}, kTime, 99)) == Sums{{{1, ""}, 5}});
  gather.end_flush(false);
  gather.begin_flush();
  // A record that the ring refused at the flush before comes late.
  fold(gather, 0, 1, 11, 1);
  CHECK(sums_of(gather.window({.epoch = 1, .ticks = 6, .in_span = 6}, kTime, 99)) == Sums{{{1, ""}, 1}, {{2, ""}, 5}});
  gather.end_flush(false);
  CHECK(gather.spans() == 2);
  gather.begin_flush();
  fold(gather, 2, 2, 11, 1);  // a span that rested for a flush is no new one
  (void)gather.window({.epoch = 2, .ticks = 1, .in_span = 1}, kTime, 99);
  CHECK(gather.spans() == 2);
}

TEST_CASE("samples without their frames are kept, and said") {
  Gather gather({});
  fold(gather, 0, 1, 99, 4);
  gather.begin_flush();
  CHECK(sums_of(gather.window({.ticks = 4, .in_span = 4}, kTime, 99)) == Sums{{{1, "[frames lost]"}, 4}});
  CHECK(gather.frames_lost() == 4);
}

TEST_CASE("code that is compiled while it runs has the name that is valid at the flush, and a stack of its own") {
  void* code = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(code != MAP_FAILED);
  const std::string map = "/tmp/perf-" + std::to_string(::getpid()) + ".map";
  const auto say = [&](const char* name) {
    std::ofstream(map, std::ios::app) << code << " 100 " << name << '\n';
    ::usleep(120'000);  // the map is read again after 100 ms
  };
  say("first");
  const auto self = spanfold::proc::test::look_at(::getpid());
  Gather gather({});
  const std::uint64_t user = reinterpret_cast<std::uint64_t>(code) + 8;
  gather.on_stack({.stack_id = 1, .process = self.key, .image = self.image, .user = {&user, 1}});
  std::set<std::uint64_t> keys;
  const auto name = [&](std::uint32_t epoch) {
    gather.on_fold(
        {.epoch = epoch, .span = span_of(1), .process = self.key, .stacks = {{.stack_id = 1, .samples = 1}}});
    gather.begin_flush();
    const Window window = gather.window({.epoch = epoch, .ticks = 1, .in_span = 1}, kTime, 99);
    keys.insert(window.processes[0].on_cpu[0].stack_key);
    std::string found = *window.processes[0].on_cpu[0].frames[0].function;
    gather.end_flush(false);
    return found;
  };
  CHECK(name(0) == "first");
  CHECK(name(1) == "first");
  CHECK(keys.size() == 1);
  say("second");
  CHECK(name(2) == "second");
  CHECK(keys.size() == 2);
  say("first");
  CHECK(name(3) == "first");
  CHECK(keys.size() == 2);
  ::unlink(map.c_str());
  ::munmap(code, 4096);
}

TEST_CASE("what arrives while a flush names its stacks is named with them") {
  const auto self = spanfold::proc::test::look_at(::getpid());
  const auto user = reinterpret_cast<std::uint64_t>(&::usleep);
  const auto own = reinterpret_cast<std::uint64_t>(&span_of);
  Gather gather({.lines = true});
  int calls = 0;
  gather.when_busy([&] {
    if (++calls > 1) return true;
    gather.on_stack({.stack_id = 2, .process = self.key, .image = self.image, .user = {&user, 1}});
    gather.notice(0);
    gather.on_fold({.epoch = 0, .span = span_of(1), .process = self.key, .stacks = {{.stack_id = 2, .samples = 1}}});
    gather.on_fold({.epoch = 1, .span = span_of(1), .process = self.key, .stacks = {{.stack_id = 2, .samples = 5}}});
    return true;
  });
  gather.on_stack({.stack_id = 1, .process = self.key, .image = self.image, .user = {&own, 1}});
  gather.notice(0);
  gather.on_fold({.epoch = 0, .span = span_of(1), .process = self.key, .stacks = {{.stack_id = 1, .samples = 1}}});
  gather.begin_flush();
  const Window window = gather.window({.epoch = 0, .ticks = 2, .in_span = 2}, kTime, 99);
  REQUIRE(calls > 0);
  const auto& samples = window.processes[0].on_cpu;
  REQUIRE(samples.size() == 2);
  for (const auto& sample : samples) {
    REQUIRE(sample.frames.size() == 1);
    CHECK(sample.frames[0].function != nullptr);
    CHECK(sample.value == 1);
  }
  CHECK(samples[0].frames[0].lines != nullptr);
  gather.end_flush(false);
  gather.begin_flush();
  const Window next = gather.window({.epoch = 1, .ticks = 5, .in_span = 5}, kTime, 99);
  CHECK(next.processes[0].on_cpu[0].value == 5);
}

TEST_CASE("a stack without frames and one that was cut are marked") {
  Gather gather({});
  see(gather, 1, 0);
  see(gather, 2, 128, WalkEnd::kDepth);
  see(gather, 3, 2, WalkEnd::kNoRule);
  fold(gather, 0, 1, 1, 1);
  fold(gather, 0, 2, 2, 1);
  fold(gather, 0, 3, 3, 1);
  gather.begin_flush();
  CHECK(sums_of(gather.window({.ticks = 3, .in_span = 3}, kTime, 99)) ==
        Sums{{{1, "[unknown]"}, 1}, {{2, "[truncated]"}, 1}, {{3, "[no unwind rule]"}, 1}});
}

TEST_CASE("background: a share for each process that carried a span, and one for all others") {
  Gather gather({});
  gather.begin_flush();
  const Bank bank{.ticks = 10, .background = 10, .by_process = {{kProcess, 4}}, .carriers = {kProcess}};
  const Window window = gather.window(bank, kTime, 99);
  REQUIRE(window.processes.size() == 2);
  CHECK(window.processes[0].on_cpu[0].value == 6);  // all others: no process
  CHECK(window.processes[1].on_cpu[0].value == 4);
  CHECK(sums_of(window) == Sums{{{0, "[background]"}, 10}});
}

TEST_CASE("background of processes that never carried a span is that of all others") {
  Gather gather({});
  gather.begin_flush();
  ProcessKey other = kProcess;
  other.pid -= 1;
  const Bank bank{.ticks = 10, .background = 10, .by_process = {{other, 3}, {kProcess, 4}}, .carriers = {kProcess}};
  const Window window = gather.window(bank, kTime, 99);
  REQUIRE(window.processes.size() == 2);
  CHECK(window.processes[0].on_cpu[0].value == 6);
  CHECK(window.processes[1].on_cpu[0].value == 4);
}

TEST_CASE("span times are those of the window's processes, sampled or not, and only when asked for") {
  for (const bool asked : {true, false}) {
    Gather gather({.span_times = asked});
    gather.on_fold({.epoch = 0,
                    .span = span_of(1),
                    .process = kProcess,
                    .tid = 7,
                    .first_boottime_ns = 1'200,
                    .last_boottime_ns = 1'500,
                    .on_thread_ns = 300,
                    .end_seen = true,
                    .gone = true});
    gather.begin_flush();
    const Window window = gather.window({}, kTime, 49);
    CHECK(window.start_unix_nano == 6'000);
    CHECK(window.duration_ns == 1'000);
    CHECK(window.frequency_hz == 49);
    REQUIRE(window.processes.size() == (asked ? 1 : 0));
    if (!asked) continue;
    const auto& times = window.processes[0].span_times;
    REQUIRE(times.size() == 1);
    CHECK(times[0].ended);
    CHECK(times[0].stays[0].begin_unix_nano == 6'200);
  }
}

TEST_CASE("a window is full of rows or of stays, and a flush empties it") {
  Gather gather({.span_times = true, .most_rows = 3, .most_stays = 4});
  const auto flush = [&gather] {
    gather.begin_flush();
    const Window window = gather.window({}, kTime, 99);
    gather.end_flush(false);
    std::size_t rows = 0;
    std::size_t times = 0;
    for (const auto& process : window.processes) {
      rows += process.on_cpu.size();
      times += process.span_times.size();
    }
    return std::pair(rows, times);
  };
  const auto stay = [&gather](std::uint32_t epoch, std::uint8_t span) {
    gather.on_fold({.epoch = epoch,
                    .span = span_of(span),
                    .process = kProcess,
                    .tid = 7,
                    .first_boottime_ns = 1'200,
                    .last_boottime_ns = 1'500,
                    .on_thread_ns = 300});
  };
  for (std::uint8_t span = 1; span <= 3; ++span) {
    CHECK(!gather.full());
    fold(gather, 0, span, 11, 1);
  }
  CHECK(gather.full());
  // What comes during the flush is all taken, and what of it is of the next window counts there.
  fold(gather, 0, 4, 11, 1);
  for (std::uint8_t span = 1; span <= 4; ++span) stay(1, span);
  CHECK(flush() == std::pair<std::size_t, std::size_t>(4, 0));
  CHECK(gather.full());
  CHECK(flush() == std::pair<std::size_t, std::size_t>(0, 4));
  CHECK(!gather.full());
  for (int piece = 1; piece <= 4; ++piece) {
    CHECK(!gather.full());
    stay(2, 1);
  }
  CHECK(gather.full());
  CHECK(flush() == std::pair<std::size_t, std::size_t>(0, 1));
  CHECK(!gather.full());
}

TEST_CASE("a full window does not keep what is drained during its flush from the next one") {
  Gather gather({.span_times = true, .most_rows = 3, .most_stays = 2});
  for (std::uint8_t span = 1; span <= 3; ++span) fold(gather, 0, span, 11, 1);
  CHECK(gather.full());
  gather.begin_flush();
  CHECK(!gather.full());
  for (std::uint8_t span = 1; span <= 3; ++span) {
    CHECK(!gather.full());
    fold(gather, 1, span, 11, 1);
  }
  CHECK(gather.full());
  (void)gather.window({}, kTime, 99);
  gather.end_flush(false);
  CHECK(gather.full());
}

TEST_CASE("a window is full of stacks that wait for their names") {
  Gather gather({.most_frames = 5});
  see(gather, 1, 3);
  see(gather, 1, 1);
  CHECK(!gather.full());
  see(gather, 2, 1);
  CHECK(gather.full());
  gather.begin_flush();
  (void)gather.window({}, kTime, 99);
  gather.end_flush(false);
  see(gather, 1, 3);  // has its name
  see(gather, 1, 3);
  CHECK(!gather.full());
}

TEST_CASE("background none writes none, stacks writes the stacks") {
  Gather none({.background = Background::kNone});
  none.begin_flush();
  CHECK(none.window({.ticks = 10, .background = 10, .by_process = {{kProcess, 4}}}, kTime, 99).processes.empty());
  Gather stacks({.background = Background::kStacks});
  see(stacks, 1);
  fold(stacks, 0, 0, 1, 3);
  stacks.begin_flush();
  CHECK(sums_of(stacks.window({.ticks = 3, .background = 3}, kTime, 99)) == Sums{{{0, ""}, 3}});
}

TEST_CASE("forgetting drops what was not seen since the flush began, and nothing else") {
  Gather gather({.most_frames = 5});
  see(gather, 1);
  (void)gather.window({}, kTime, 99);
  CHECK(!gather.wants_to_forget());
  see(gather, 2);
  (void)gather.window({}, kTime, 99);
  CHECK(gather.wants_to_forget());
  gather.begin_flush();
  see(gather, 2);  // sent anew, because the kernel side was told
  (void)gather.window({}, kTime, 99);
  gather.end_flush(true);
  CHECK(!gather.wants_to_forget());
  fold(gather, 1, 1, 1, 1);
  fold(gather, 1, 2, 2, 1);
  gather.begin_flush();
  CHECK(sums_of(gather.window({.ticks = 2, .in_span = 2}, kTime, 99)) == Sums{{{1, "[frames lost]"}, 1}, {{2, ""}, 1}});
}
