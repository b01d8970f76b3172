// SPDX-License-Identifier: Apache-2.0
// Threads at random while the ring is full most of the time: which messages go out is chance, what they add up to is
// not.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "tests/bpf/step_writer.hpp"
#include "tests/bpf/steps.hpp"

using bodytest::Plan;
using bodytest::Stay;
using bodytest::Steps;
using bodytest::StepWriter;
using bodytest::Whose;

namespace {

// What hooks that miss nothing have said of the threads.
class Sums {
 public:
  void apply(const sf_step& step) {
    const std::uint64_t thread = step.pid_tgid;
    if (step.op == STEP_HOOK || step.op == STEP_EXIT) {
      if (entry_[thread].span_id != 0 && entry_[thread].span_id == step.span.span_id) return;
      leave(step);
      entry_[thread] = step.span;
      if (step.span.span_id != 0) come(step);
    } else if (step.op == STEP_SAMPLE && entry_[thread].span_id != 0) {
      if (step.result == 1) {
        ++samples[whose(step, step.epoch)][step.stack_id];
      } else {
        ++lost;
      }
    }
  }

  std::map<Whose, std::map<std::uint64_t, std::uint64_t>> samples;
  std::map<Whose, std::uint64_t> on_thread_ns;  // over all epochs
  std::map<Whose, std::set<std::uint64_t>> begins;
  std::map<Whose, std::set<std::uint64_t>> ends;
  std::map<Whose, std::set<std::uint64_t>> returns;  // ends after which the thread came back
  std::uint64_t lost = 0;

 private:
  Whose whose(const sf_step& step, std::uint32_t epoch) {
    return {.thread = step.pid_tgid,
            .start_ns = step.process.start_ns,
            .exec_id = step.process.exec_id,
            .trace = entry_[step.pid_tgid].trace_id[0],
            .span = entry_[step.pid_tgid].span_id,
            .epoch = epoch};
  }
  void leave(const sf_step& step) {
    const sf_span& left = entry_[step.pid_tgid];
    if (left.span_id == 0) return;
    on_thread_ns[whose(step, 0)] += step.now_ns - since_[step.pid_tgid];
    ends[whose(step, 0)].insert(step.now_ns);
    if (left.trace_id[0] == step.span.trace_id[0]) {
      covered_[step.pid_tgid].push_back({left.span_id, step.now_ns});
    } else {
      covered_[step.pid_tgid].clear();
    }
  }
  void come(const sf_step& step) {
    since_[step.pid_tgid] = step.now_ns;
    begins[whose(step, 0)].insert(step.now_ns);
    auto& covered = covered_[step.pid_tgid];
    const auto back = std::ranges::find(covered, step.span.span_id, &Covered::span);
    if (back == covered.end()) return;
    returns[whose(step, 0)].insert(back->left_ns);
    covered.erase(back, covered.end());
  }

  struct Covered {
    std::uint64_t span = 0;
    std::uint64_t left_ns = 0;
  };
  std::map<std::uint64_t, std::vector<Covered>> covered_;  // by the thread's spans of the same trace; in order
  std::map<std::uint64_t, sf_span> entry_;
  std::map<std::uint64_t, std::uint64_t> since_;
};

// What is called exact is; what is called gone does not come back, as far as there were records for all.
void check_stay(const Stay& stay, const Whose& whose, Sums& sums, bool may_crowd) {
  REQUIRE(stay.last_ns - stay.first_ns >= stay.on_thread_ns);
  if ((stay.flags & SF_STAY_BEGIN_SEEN) != 0) REQUIRE(sums.begins[whose].contains(stay.first_ns));
  if ((stay.flags & SF_STAY_END_SEEN) == 0) return;
  REQUIRE(sums.ends[whose].contains(stay.last_ns));
  if ((stay.flags & SF_STAY_GONE) != 0 && !may_crowd) REQUIRE(!sums.returns[whose].contains(stay.last_ns));
}

void check_stays(const Steps& bpf, Sums& sums, bool may_crowd) {
  std::map<Whose, std::uint64_t> told_ns;
  for (const auto& [told_of, stays] : bpf.told.stays) {
    Whose whose = told_of;
    whose.epoch = 0;
    for (const Stay& stay : stays) {
      told_ns[whose] += stay.on_thread_ns;
      check_stay(stay, whose, sums, may_crowd);
    }
  }
  for (const auto& [whose, on_thread_ns] : told_ns) REQUIRE(on_thread_ns <= sums.on_thread_ns[whose]);
  for (const auto& [whose, on_thread_ns] : sums.on_thread_ns) {
    if (!may_crowd) REQUIRE(told_ns[whose] >= on_thread_ns);
  }
}

void fill_the_ring(const Plan& plan, unsigned drain_every, bool may_crowd) {
  Steps bpf(plan.sizes);
  StepWriter writer(plan);
  Sums sums;
  std::vector<sf_step> steps;
  const auto run = [&] {
    bpf.run(steps);
    for (const sf_step& step : steps) sums.apply(step);
    steps.clear();
  };
  for (std::uint64_t made = 0; made < plan.steps; ++made) {
    writer.happen(steps);
    if (made % drain_every == 0) {
      run();
      bpf.drain();
    } else if (steps.size() >= plan.batch) {
      run();
    }
  }
  run();
  bpf.drain();
  writer.finish_all(steps);
  sf_step sweep = steps.back();
  run();
  for (int tries = 0; bpf.records_in_use() > 0 && tries < 100; ++tries) {
    bpf.drain();
    ++sweep.now_ns;
    bpf.run({&sweep, 1});
  }
  bpf.drain();
  const sf_counters counters = bpf.counters();
  CHECK(counters.count[SF_COUNT_EMIT_REFUSED] > 100);
  CHECK(counters.drop[SF_DROP_RING_FULL] == sums.lost);
  CHECK(counters.drop[SF_DROP_RING_BUSY] == 0);
  CHECK(bpf.told.samples == sums.samples);
  CHECK(bpf.records_in_use() == 0);
  CHECK(bpf.tables_in_use() == 0);
  CHECK((counters.count[SF_COUNT_STAY_CROWD] > 0) == may_crowd);
  if (!plan.sizes.span_times) return;
  check_stays(bpf, sums, may_crowd);
}

}  // namespace

TEST_CASE("a ring that is full for a while: samples and time on threads add up") {
  fill_the_ring({.seed = 10,
                 .steps = 200'000,
                 .spans = SF_THREAD_RECORDS,
                 .stacks = 40,
                 .missed = 0,
                 .late_maps = false,
                 .alone = true,
                 .sizes = {.buckets = 64, .tables = 4, .ring_bytes = 4096, .span_times = true}},
                120, false);
}

TEST_CASE("a ring that is full for long: what finds no record is not told of, and nothing is told twice") {
  fill_the_ring({.seed = 11,
                 .steps = 100'000,
                 .stacks = 40,
                 .missed = 0,
                 .late_maps = false,
                 .alone = true,
                 .sizes = {.buckets = 1, .tables = 1, .ring_bytes = 4096, .span_times = true}},
                400, true);
}

TEST_CASE("a ring that is full for long, without span times: samples add up") {
  fill_the_ring({.seed = 12,
                 .steps = 100'000,
                 .stacks = 400,
                 .missed = 0,
                 .late_maps = false,
                 .alone = true,
                 .sizes = {.buckets = 1, .tables = 1, .ring_bytes = 4096}},
                1000, true);
}
