// SPDX-License-Identifier: Apache-2.0
#include "report/costs.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace spanfold::report {

Costs& operator+=(Costs& left, const Costs& right) {
  for (std::size_t kind = 0; kind < kKindCount; ++kind) left[kind] += right[kind];
  return left;
}

Cost sum(const Costs& costs) {
  Cost all;
  for (const Cost& cost : costs) all += cost;
  return all;
}

bool costlier(const Cost& left, const Cost& right) {
  return std::tie(left.ns, left.count) > std::tie(right.ns, right.count);
}

std::vector<FunctionCost> functions_of(const Recording& recording, const std::vector<StackCost>& stacks) {
  std::vector<FunctionCost> functions;
  std::unordered_map<std::uint32_t, std::size_t> places;
  std::unordered_map<std::uint32_t, std::size_t> seen_in;  // the stack that counted this frame last, plus one
  const auto place = [&](std::uint32_t frame) -> FunctionCost& {
    const auto [found, added] = places.try_emplace(frame, functions.size());
    if (added) functions.push_back({.frame = frame});
    return functions[found->second];
  };
  for (std::size_t at = 0; at < stacks.size(); ++at) {
    const StackCost& stack = stacks[at];
    const auto frames = recording.stack(stack.stack);
    of(place(frames.front()).self, stack.kind) += stack.cost;
    for (const std::uint32_t frame : frames) {
      if (std::exchange(seen_in[frame], at + 1) != at + 1) of(place(frame).total, stack.kind) += stack.cost;
    }
  }
  std::sort(functions.begin(), functions.end(), [&](const FunctionCost& left, const FunctionCost& right) {
    const Cost left_self = sum(left.self);
    const Cost right_self = sum(right.self);
    if (left_self != right_self) return costlier(left_self, right_self);
    const Cost left_total = sum(left.total);
    const Cost right_total = sum(right.total);
    if (left_total != right_total) return costlier(left_total, right_total);
    return recording.frames()[left.frame] < recording.frames()[right.frame];
  });
  return functions;
}

}  // namespace spanfold::report
