// SPDX-License-Identifier: Apache-2.0
// A thread goes from span to span as fast as it can, others open records in its bucket, and the sweep flushes all of
// them all the time: every sample is told once, and time on threads is exact, but for spans whose record was in use.
#include <doctest/doctest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <initializer_list>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "tests/bpf/step_sums.hpp"

using bodytest::Steps;
using bodytest::Sums;
using bodytest::Whose;

namespace {

constexpr int kRuns = 600;

void pin_to_cpu(std::uint32_t cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  REQUIRE(pthread_setaffinity_np(pthread_self(), sizeof(set), &set) == 0);
}

// One thread's way through spans that come back from under a nested one, or after they had left for none.
class Runner {
 public:
  Runner(std::uint64_t number, unsigned samples) : number_(number), samples_(samples), random_(number) {}

  std::vector<sf_step> steps(std::uint32_t epoch) {
    std::vector<sf_step> steps;
    epoch_ = epoch;
    while (steps.size() < STEPS_AT_ONCE - 5 * (samples_ + 2) - 2) {
      const std::uint64_t trace = ++traces_;
      set(steps, span(trace, 1));
      if (random_() % 2 == 0) {
        set(steps, span(trace, 2));
        set(steps, span(trace, 1));
      }
      if (random_() % 2 == 0) set(steps, {});
      if (random_() % 2 == 0) set(steps, span(trace, 1));
    }
    if (random_() % 8 == 0) {
      steps.push_back(end());
      // The next thread with this id comes at once, and must not find what the sweep has not yet seen end.
      steps.push_back(step(STEP_MAP));
    }
    return steps;
  }
  [[nodiscard]] sf_step end() const { return step(STEP_EXIT); }

  Sums sums;

 private:
  [[nodiscard]] sf_span span(std::uint64_t trace, std::uint64_t id) const {
    return {.trace_id = {number_ << 32 | trace, 1}, .span_id = number_ << 40 | trace << 8 | id};
  }
  [[nodiscard]] sf_step step(sf_step_op op) const {
    return {.pid_tgid = number_ << 32 | number_,
            .process = {.start_ns = number_, .tgid = static_cast<std::uint32_t>(number_), .exec_id = 1},
            .op = static_cast<std::uint32_t>(op),
            .epoch = epoch_};
  }
  void set(std::vector<sf_step>& steps, const sf_span& to) {
    steps.push_back(step(STEP_HOOK));
    steps.back().span = to;
    steps.push_back(step(STEP_MAP));
    steps.back().span = to;
    for (std::uint64_t samples = random_() % (samples_ + 1); samples > 0; --samples) {
      steps.push_back(step(STEP_SAMPLE));
      steps.back().stack_id = 1 + random_() % 12;
    }
  }

  std::uint64_t number_;
  unsigned samples_;
  std::mt19937_64 random_;
  std::uint64_t traces_ = 0;
  std::uint32_t epoch_ = 0;
};

void live(Steps& bpf, Runner& runner, std::uint32_t cpu, const std::atomic<std::uint32_t>& epoch) {
  pin_to_cpu(cpu);
  for (int run = 0; run < kRuns; ++run) {
    std::vector<sf_step> steps = runner.steps(epoch.load());
    bpf.run(steps, cpu);
    for (const sf_step& step : steps) runner.sums.apply(step);
  }
  std::vector<sf_step> last{runner.end()};
  bpf.run(last, cpu);
  runner.sums.apply(last[0]);
}

// Threads that stay in their spans, so that in their bucket others must take the places of those who have left.
void tell_dwellers(Steps& bpf, std::uint64_t count, std::initializer_list<sf_step_op> ops, std::uint32_t epoch) {
  for (std::uint64_t number = 11; number < 11 + count; ++number) {
    std::vector<sf_step> steps;
    for (const sf_step_op op : ops) {
      steps.push_back({.pid_tgid = number << 32 | number,
                       .process = {.start_ns = number, .tgid = static_cast<std::uint32_t>(number), .exec_id = 1},
                       .span = {.trace_id = {number, 1}, .span_id = number},
                       .op = static_cast<std::uint32_t>(op),
                       .epoch = epoch});
    }
    bpf.run(steps, 2);
  }
}

// The owner on one CPU, its neighbour and the sweep on another.
void race(Steps& bpf, Runner& owner, Runner& neighbour, std::uint64_t dwellers) {
  tell_dwellers(bpf, dwellers, {STEP_HOOK, STEP_MAP}, 0);
  std::atomic<std::uint32_t> epoch = 0;
  std::atomic<int> running = 2;
  const auto run = [&](Runner& runner, std::uint32_t cpu) {
    live(bpf, runner, cpu, epoch);
    --running;
  };
  const auto flush = [&] {
    std::vector<sf_step> steps(8, {.op = STEP_SWEEP, .epoch = ++epoch, .places = bpf.places()});
    bpf.run(steps, 2);
    bpf.drain();
  };
  std::thread first(run, std::ref(owner), 0);
  std::thread second(run, std::ref(neighbour), 1);
  pin_to_cpu(1);
  while (running.load() > 0) flush();
  first.join();
  second.join();
  tell_dwellers(bpf, dwellers, {STEP_EXIT}, epoch.load());
  flush();
  for (int tries = 0; tries < 100 && bpf.records_in_use() > 0; ++tries) flush();
  CHECK(bpf.records_in_use() == 0);
}

// Checks what is called exact, and adds up.
std::map<Whose, std::uint64_t> time_told(const Steps& bpf, Sums& sums) {
  std::map<Whose, std::uint64_t> told_ns;
  for (const auto& [told_of, stays] : bpf.told.stays) {
    Whose whose = told_of;
    whose.epoch = 0;
    if (!sums.begins.contains(whose)) continue;  // the other's
    for (const auto& stay : stays) {
      told_ns[whose] += stay.on_thread_ns;
      const bool begins = (stay.flags & SF_STAY_BEGIN_SEEN) != 0;
      const bool ends = (stay.flags & SF_STAY_END_SEEN) != 0;
      if (begins) REQUIRE(sums.begins.at(whose).contains(stay.first_ns));
      // A flush between a hook's look at the clock and its look at the record: the change comes after both.
      if (!begins && stay.on_thread_ns == 1) {
        sums.disturbed.insert(whose);
      } else if (ends) {
        REQUIRE(sums.ends.at(whose).contains(stay.last_ns));
      }
    }
  }
  return told_ns;
}

void check_times(const Steps& bpf, Sums& sums) {
  const std::map<Whose, std::uint64_t> told_ns = time_told(bpf, sums);
  std::uint64_t undisturbed = 0;
  for (const auto& [whose, on_thread_ns] : sums.on_thread_ns) {
    if (sums.disturbed.contains(whose)) continue;
    ++undisturbed;
    REQUIRE(told_ns.contains(whose));
    REQUIRE(told_ns.at(whose) == on_thread_ns);
  }
  CHECK(undisturbed > sums.on_thread_ns.size() / 10);
}

}  // namespace

TEST_CASE("a thread, its neighbour and a sweep that flushes, all at once: what no one was in the way of is exact") {
  if (libbpf_num_possible_cpus() < 2) {
    MESSAGE("SKIPPED: needs two CPUs to race");
    return;
  }
  for (const std::uint64_t dwellers : {4, 6}) {
    Steps bpf({.buckets = 1, .tables = 2, .ring_bytes = 1U << 24, .span_times = true});
    Runner owner(1, 4);
    Runner neighbour(2, 20);
    race(bpf, owner, neighbour, dwellers);
    CHECK(bpf.tables_in_use() == 0);
    std::map<Whose, std::map<std::uint64_t, std::uint64_t>> samples = owner.sums.samples;
    samples.insert(neighbour.sums.samples.begin(), neighbour.sums.samples.end());
    CHECK(bpf.told.samples == samples);
    CHECK(owner.sums.lost + neighbour.sums.lost == 0);
    check_times(bpf, owner.sums);
    check_times(bpf, neighbour.sums);
  }
}
