// SPDX-License-Identifier: Apache-2.0
// The fold as the kernel runs it, against a naive model: whatever happens, each sample comes out once under its own
// thread, span and stack, or is counted as dropped.
#include <doctest/doctest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/bpf/bodies.hpp"

using bodytest::Bodies;
using bodytest::Counts;
using bodytest::Sizes;

namespace {

sf_body_input sample(std::uint64_t thread, std::uint64_t span, std::uint64_t stack, std::uint32_t epoch) {
  sf_body_input input = {};
  input.pid_tgid = (thread << 32) | thread;
  input.process = {.start_ns = thread, .tgid = static_cast<std::uint32_t>(thread), .exec_id = 1};
  input.span = {.trace_id = {span / 4, 1}, .span_id = span};  // four spans share a trace
  input.stack_id = sf_mix(3, stack);
  input.now_ns = 1000;
  input.epoch = epoch;
  return input;
}

// The thread ends, or it leaves its span for none: then its records linger.
void end_all(sf_body_input& input, bool exits) {
  input.teller = exits ? SF_TELLER_EXIT : SF_TELLER_HOOK;
  input.span = {};
}

void pin_to_cpu(std::uint32_t cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  REQUIRE(pthread_setaffinity_np(pthread_self(), sizeof(set), &set) == 0);
}

std::uint64_t total(const Counts& counts) {
  std::uint64_t sum = 0;
  for (const auto& [key, count] : counts) sum += count;
  return sum;
}

// Random folds, closings and flushes; `drain_every`: how rarely the ring is emptied in between.
void random_walk(std::uint64_t seed, const Sizes& sizes, int steps, unsigned drain_every, std::uint64_t distinct) {
  Bodies bpf(sizes);
  std::mt19937_64 random(seed);
  Counts model;
  std::map<std::uint32_t, std::uint64_t> folded_in;
  std::uint64_t lost = 0;
  std::uint32_t epoch = 0;
  std::uint64_t until_sweep = 0;  // samples of a new epoch also meet records of the old one
  for (int step = 0; step < steps; ++step) {
    const std::uint64_t thread = 1 + random() % 6;
    const std::uint64_t action = random() % 1000;
    sf_body_input input = sample(thread, 1 + random() % 12, random() % distinct, epoch);
    if (until_sweep > 0 && --until_sweep == 0) bpf.sweep(epoch);
    if (action < 5 && until_sweep == 0) {
      ++epoch;
      until_sweep = 1 + random() % 20;
    } else if (action < 60) {
      end_all(input, random() % 2 == 0);
      bpf.call(bpf.progs().body_settle, input);
    } else {
      bpf.call(bpf.progs().body_fold, input);
      if (input.result == 1) {
        ++model[{input.pid_tgid, input.span.span_id, input.stack_id}];
        ++folded_in[epoch];
      } else {
        ++lost;
      }
    }
    if (random() % drain_every == 0) bpf.drain();
  }
  bpf.sweep(++epoch);
  CHECK(bpf.counts == model);
  const sf_counters even = bpf.counters(0);
  const sf_counters odd = bpf.counters(1);
  std::uint64_t dropped = 0;
  for (int i = 0; i < SF_DROP_COUNT; ++i) dropped += even.drop[i] + odd.drop[i];
  CHECK(dropped == lost);
  CHECK(bpf.records_in_use() == 0);
  CHECK(bpf.tables_in_use() == 0);
  // Each epoch's messages hold just the samples of that epoch, also where the ring refused some for a while.
  CHECK(bpf.by_epoch == folded_in);
}

}  // namespace

TEST_CASE("random folds with room enough: every sample once, in its own span and its own flush") {
  random_walk(1, {.buckets = 16, .tables = 8}, 40000, 10, 40);
}

TEST_CASE("random folds in a single bucket: what finds no record goes out on its own") {
  random_walk(2, {.buckets = 1, .tables = 1}, 30000, 10, 40);
}

TEST_CASE("random folds without tables: records roll") { random_walk(3, {.buckets = 16, .tables = 0}, 30000, 10, 400); }

TEST_CASE("random folds into a tiny ring: refused emits are kept, drops are counted") {
  random_walk(4, {.buckets = 2, .tables = 1, .ring_bytes = 8192}, 30000, 200, 400);
}

TEST_CASE("a full ring drops with its reason, and loses nothing that it had taken") {
  Bodies bpf({.buckets = 1, .tables = 0, .ring_bytes = 4096});
  std::uint64_t taken = 0;
  std::uint64_t lost = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    sf_body_input input = sample(1, 1, i, 0);
    bpf.call(bpf.progs().body_fold, input);
    ++(input.result == 1 ? taken : lost);
  }
  CHECK(lost > 0);
  CHECK(bpf.counters(0).drop[SF_DROP_RING_FULL] == lost);
  CHECK(bpf.counters(0).drop[SF_DROP_RING_BUSY] == 0);
  bpf.sweep(1);
  CHECK(total(bpf.counts) == taken);
}

TEST_CASE("a record in use sends the sample on its own, under its own span") {
  Bodies bpf({.buckets = 1});
  sf_body_input input = sample(1, 1, 1, 0);
  bpf.call(bpf.progs().body_fold, input);
  for (std::uint32_t place = 0; place < SF_BUCKET_WAYS; ++place) bpf.take_record(place);
  input = sample(1, 1, 1, 0);
  bpf.call(bpf.progs().body_fold, input);
  CHECK(input.result == 1);
  CHECK(bpf.counters(0).count[SF_COUNT_LONE_BUSY] == 1);
  bpf.drain();
  CHECK(bpf.folds == 1);
  CHECK(total(bpf.counts) == 1);
}

TEST_CASE("a nested span does not evict its parent, a fifth span takes the oldest place, another trace evicts all") {
  Bodies bpf({.buckets = 1});
  for (const std::uint64_t span : {4, 5, 6, 7}) {  // one trace
    sf_body_input input = sample(1, span, 1, 0);
    input.now_ns = 1000 + span;
    bpf.call(bpf.progs().body_fold, input);
  }
  CHECK(bpf.records_in_use() == 4);
  sf_body_input input = sample(1, 4, 1, 0);
  input.span.span_id = 100;
  input.now_ns = 2000;
  bpf.call(bpf.progs().body_fold, input);
  bpf.drain();
  CHECK(bpf.records_in_use() == 4);
  CHECK(bpf.counts.size() == 1);
  CHECK(bpf.counts.contains({input.pid_tgid, 4, input.stack_id}));
  input = sample(1, 8, 1, 0);
  input.now_ns = 3000;
  bpf.call(bpf.progs().body_fold, input);
  bpf.drain();
  CHECK(bpf.records_in_use() == 1);
  CHECK(total(bpf.counts) == 5);
  CHECK(!bpf.counts.contains({input.pid_tgid, 8, input.stack_id}));
}

TEST_CASE("a span that leaves for none lingers, and goes out for the next trace, the sweep or the flush") {
  for (const char* how : {"trace", "sweep", "flush", "exit"}) {
    CAPTURE(how);
    Bodies bpf({.buckets = 1});
    sf_body_input input = sample(1, 4, 1, 0);
    bpf.call(bpf.progs().body_fold, input);
    end_all(input, false);
    bpf.call(bpf.progs().body_settle, input);
    bpf.drain();
    CHECK(bpf.records_in_use() == 1);
    CHECK(bpf.folds == 0);
    const std::string_view name = how;
    if (name == "trace") {
      input = sample(1, 8, 1, 0);
      bpf.call(bpf.progs().body_fold, input);
    } else if (name == "exit") {
      end_all(input, true);
      bpf.call(bpf.progs().body_settle, input);
    } else {
      bpf.sweep(name == "flush" ? 1 : 0);
    }
    bpf.drain();
    CHECK(bpf.records_in_use() == (name == "trace" ? 1 : 0));
    CHECK(bpf.folds == 1);
    CHECK(bpf.counts.contains({input.pid_tgid, 4, sample(1, 4, 1, 0).stack_id}));
  }
}

TEST_CASE("a program after exec has a record of its own under the same span and thread") {
  Bodies bpf({.buckets = 1});
  sf_body_input before = sample(1, 1, 1, 0);
  bpf.call(bpf.progs().body_fold, before);
  sf_body_input after = sample(1, 1, 1, 0);
  after.process.exec_id = 2;
  bpf.call(bpf.progs().body_fold, after);
  CHECK(bpf.records_in_use() == 2);
}

TEST_CASE("an emit that stops half way sends neither half twice") {
  Bodies bpf({.buckets = 1, .tables = 1, .ring_bytes = 8192});
  Counts model;
  for (std::uint64_t stack = 0; stack < 200; ++stack) {
    sf_body_input input = sample(1, 1, stack, 0);
    bpf.call(bpf.progs().body_fold, input);
    REQUIRE(input.result == 1);
    ++model[{input.pid_tgid, input.span.span_id, input.stack_id}];
  }
  // Folds of other threads, until the inline part of the first still fits into the ring and its table no more.
  for (std::uint64_t thread = 10; bpf.free_ring_bytes() > 2500; ++thread) {
    sf_body_input input = sample(thread, 1, 1, 0);
    bpf.call(bpf.progs().body_fold, input);
    ++model[{input.pid_tgid, input.span.span_id, input.stack_id}];
    end_all(input, true);
    bpf.call(bpf.progs().body_settle, input);
  }
  sf_body_input input = sample(1, 1, 1, 0);
  end_all(input, true);
  bpf.call(bpf.progs().body_settle, input);
  CHECK(bpf.counters(0).count[SF_COUNT_EMIT_REFUSED] == 1);
  CHECK(bpf.tables_in_use() == 1);
  bpf.drain();
  bpf.call(bpf.progs().body_settle, input);
  bpf.drain();
  CHECK(bpf.counts == model);
  CHECK(bpf.records_in_use() == 0);
  CHECK(bpf.tables_in_use() == 0);
}

TEST_CASE("two CPUs that go for the same records, against a sweep: every sample once, under its own thread and span") {
  constexpr std::uint64_t kRuns = 2000;
  if (libbpf_num_possible_cpus() < 2) {
    MESSAGE("SKIPPED: needs two CPUs to race");
    return;
  }
  Bodies bpf({.buckets = 1, .tables = 2, .ring_bytes = 1U << 24});
  std::atomic<std::uint32_t> epoch = 0;
  std::atomic<int> running = 2;
  std::atomic<std::uint64_t> folded = 0;
  auto storm = [&](std::uint32_t number) {
    pin_to_cpu(number % 2);
    for (std::uint64_t run = 0; run < kRuns; ++run) {
      sf_body_input input = sample(number, 1, 1, epoch.load());
      bpf.call(bpf.progs().body_storm, input, number);
      folded += static_cast<std::uint64_t>(input.result);
    }
    --running;
  };
  std::thread first(storm, 1);
  std::thread second(storm, 2);
  while (running.load() > 0) {
    ++epoch;
    bpf.sweep(epoch.load());
  }
  first.join();
  second.join();
  bpf.sweep(++epoch);
  Counts model;
  for (const std::uint64_t thread : {1, 2}) {
    const std::uint64_t id = sample(thread, 1, 1, 0).pid_tgid;
    for (std::uint64_t i = 0; i < STORM_STEPS; ++i) model[{id, STORM_SPAN(i), STORM_STACK(id, i)}] += kRuns;
  }
  CHECK(folded.load() == 2 * kRuns * STORM_STEPS);
  CHECK(bpf.counts == model);
  CHECK(bpf.records_in_use() == 0);
  CHECK(bpf.tables_in_use() == 0);
}
