// SPDX-License-Identifier: Apache-2.0
// Skipped hooks by flush: each is counted once, and known to every epoch that it may be of.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "bpf/hook_watch.h"

using spanfold::bpf::HookMisses;

namespace {

struct Step {
  std::uint64_t before;  // what the kernel counts before the step
  std::uint64_t after;
};

std::vector<bool> blind_of(HookMisses& misses, const std::vector<Step>& steps) {
  std::vector<bool> blind;
  for (const Step& step : steps) {
    misses.before_step(step.before);
    blind.push_back(misses.after_step(step.after).any);
  }
  return blind;
}

}  // namespace

TEST_CASE("a miss between two steps is of the epoch between them") {
  HookMisses misses;
  CHECK(blind_of(misses, {{0, 0}, {3, 3}, {3, 3}, {3, 3}}) == std::vector{false, true, false, false});
}

TEST_CASE("a miss during a step may be of either epoch") {
  HookMisses misses;
  CHECK(blind_of(misses, {{0, 1}, {1, 1}, {1, 1}}) == std::vector{true, true, false});
  CHECK(blind_of(misses, {{1, 4}, {6, 6}, {6, 6}}) == std::vector{true, true, false});
}

TEST_CASE("misses before the first step are of the first epoch") {
  HookMisses misses;
  CHECK(blind_of(misses, {{2, 2}, {2, 2}}) == std::vector{true, false});
}

TEST_CASE("misses of all flushes add up to what the kernel counted") {
  HookMisses misses;
  std::uint64_t sum = 0;
  for (const Step& step : {Step{1, 3}, Step{3, 3}, Step{5, 9}, Step{9, 10}}) {
    misses.before_step(step.before);
    sum += misses.after_step(step.after).fresh;
    CHECK(sum == step.after);
  }
}
