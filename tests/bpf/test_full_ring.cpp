// SPDX-License-Identifier: Apache-2.0
// Threads at random while the ring is full most of the time: which messages go out is chance, what they add up to is
// not.
#include <doctest/doctest.h>

#include <map>
#include <vector>

#include "tests/bpf/step_sums.hpp"
#include "tests/bpf/step_writer.hpp"
#include "tests/bpf/steps.hpp"

using bodytest::Plan;
using bodytest::Stay;
using bodytest::Steps;
using bodytest::StepWriter;
using bodytest::Sums;
using bodytest::Whose;

namespace {

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
