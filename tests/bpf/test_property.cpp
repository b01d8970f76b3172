// SPDX-License-Identifier: Apache-2.0
// Threads at random, a million steps and more: through the BPF bodies and through a naive model, the same is told.
#include <doctest/doctest.h>

#include <deque>
#include <sstream>
#include <string>
#include <vector>

#include "tests/bpf/stay_model.hpp"
#include "tests/bpf/step_writer.hpp"

using bodytest::Plan;
using bodytest::Stay;
using bodytest::StayModel;
using bodytest::Steps;
using bodytest::StepWriter;
using bodytest::Whose;

namespace {

constexpr std::uint64_t kSeed = 77;  // bodytest::give_sizes

std::string text(const sf_step& step) {
  static constexpr const char* kNames[] = {"hook", "map", "note", "sample", "exit", "sweep"};
  std::ostringstream out;
  out << step.now_ns << ' ' << kNames[step.op] << " thread " << (step.pid_tgid >> 32) << " span "
      << step.span.trace_id[0] << '/' << step.span.span_id << " exec " << step.process.exec_id << " switches "
      << step.switches << " epoch " << step.epoch << " evicted " << step.evicted << " kernel " << step.in_kernel
      << " caught up " << step.caught_up << " own " << step.own << " result " << step.result << '\n';
  return out.str();
}

std::string text(const Whose& whose) {
  std::ostringstream out;
  out << "thread " << (whose.thread >> 32) << " start " << whose.start_ns << " exec " << whose.exec_id << " span "
      << whose.trace << '/' << whose.span << " epoch " << whose.epoch;
  return out.str();
}

std::string text(const std::vector<Stay>& stays) {
  std::ostringstream out;
  for (const Stay& stay : stays) {
    out << " [" << stay.first_ns << ' ' << stay.last_ns << " on " << stay.on_thread_ns << " flags " << stay.flags
        << ']';
  }
  return out.str();
}

std::string text(const std::map<std::uint64_t, std::uint64_t>& samples) {
  std::ostringstream out;
  for (const auto& [stack, count] : samples) out << " (" << stack << ": " << count << ')';
  return out.str();
}

// The first difference, in words; empty: none.
template <typename Values>
std::string difference(const std::map<Whose, Values>& seen, const std::map<Whose, Values>& expected) {
  for (const auto& [whose, values] : expected) {
    const auto at = seen.find(whose);
    if (at == seen.end()) return text(whose) + ": nothing, expected" + text(values);
    if (at->second != values) return text(whose) + ": got" + text(at->second) + ", expected" + text(values);
  }
  for (const auto& [whose, values] : seen) {
    if (!expected.contains(whose)) return text(whose) + ": got" + text(values) + ", expected nothing";
  }
  return {};
}

// Compares all that was told, and the counters; empty: the same.
std::string compare(Steps& bpf, StayModel& model) {
  bpf.drain();
  bpf.told.sort();
  model.told.sort();
  std::string wrong = difference(bpf.told.stays, model.told.stays);
  if (wrong.empty()) wrong = difference(bpf.told.samples, model.told.samples);
  const sf_counters counters = bpf.counters();
  const auto count = [&](const char* name, std::uint64_t got, std::uint64_t expected) {
    if (wrong.empty() && got != expected) {
      wrong = std::string(name) + ": got " + std::to_string(got) + ", expected " + std::to_string(expected);
    }
  };
  count("unsampled", counters.count[SF_COUNT_UNSAMPLED], model.unsampled);
  count("unseen ends", counters.count[SF_COUNT_UNSEEN_ENDS], model.unseen_ends);
  count("stays without a record", counters.count[SF_COUNT_STAY_CROWD], model.crowded);
  count("records in use", bpf.records_in_use(), model.records_in_use());
  bpf.told = {};
  model.told = {};
  return wrong;
}

// Runs `steps` in both. Empty: all is the same.
std::string run_both(Steps& bpf, StayModel& model, std::vector<sf_step>& steps) {
  bpf.run(steps);
  for (const sf_step& step : steps) {
    if (!model.apply(step)) return model.complaint();
  }
  return compare(bpf, model);
}

void random_life(const Plan& plan) {
  Steps bpf(plan.sizes);
  StayModel model(plan.sizes, kSeed);
  StepWriter writer(plan);
  std::vector<sf_step> steps;
  std::deque<sf_step> history;
  for (std::uint64_t made = 0; made < plan.steps;) {
    steps.clear();
    while (steps.size() < plan.batch && made < plan.steps) {
      writer.happen(steps);
      ++made;
    }
    if (made >= plan.steps) writer.finish_all(steps);
    const std::string wrong = run_both(bpf, model, steps);
    if (!wrong.empty()) {
      std::string told;
      for (const sf_step& step : history) told += text(step);
      for (const sf_step& step : steps) told += text(step);
      MESSAGE(told);
      FAIL(wrong);
    }
    history.insert(history.end(), steps.begin(), steps.end());
    if (history.size() > 400) history.erase(history.begin(), history.end() - 400);
  }
  CHECK(bpf.records_in_use() == 0);
  CHECK(bpf.tables_in_use() == 0);
}

}  // namespace

TEST_CASE("threads at random, with room for all") {
  random_life(
      {.seed = 1, .steps = 300'000, .sizes = {.buckets = 16, .tables = 8, .ring_bytes = 1U << 20, .span_times = true}});
}

TEST_CASE("threads at random, without span times") {
  random_life({.seed = 2, .steps = 200'000, .sizes = {.buckets = 16, .tables = 8, .ring_bytes = 1U << 20}});
}

TEST_CASE("threads at random, crowded into one bucket") {
  random_life({.seed = 3,
               .steps = 300'000,
               .stacks = 12,
               .sizes = {.buckets = 1, .tables = 8, .ring_bytes = 1U << 20, .span_times = true}});
}

TEST_CASE("threads at random, crowded into two buckets, without span times") {
  random_life({.seed = 4, .steps = 200'000, .sizes = {.buckets = 2, .tables = 8, .ring_bytes = 1U << 20}});
}

TEST_CASE("threads at random, with the work outside spans") {
  random_life(
      {.seed = 5,
       .steps = 200'000,
       .sizes = {.buckets = 2, .tables = 8, .ring_bytes = 1U << 20, .span_times = true, .background_stacks = true}});
}

TEST_CASE("threads at random whose hooks miss nothing, and whose hooks miss all") {
  for (const unsigned missed : {0U, 100U}) {
    random_life({.seed = 6 + missed,
                 .steps = 100'000,
                 .missed = missed,
                 .sizes = {.buckets = 2, .tables = 8, .ring_bytes = 1U << 20, .span_times = true}});
  }
}
