// SPDX-License-Identifier: Apache-2.0
// Costs of each kind, of stacks and of functions, and their order.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "report/recording.h"

namespace spanfold::report {

using Costs = std::array<Cost, kKindCount>;  // by Kind

[[nodiscard]] inline Cost& of(Costs& costs, Kind kind) { return costs[static_cast<std::size_t>(kind)]; }
Costs& operator+=(Costs& left, const Costs& right);

// Time of all kinds, then samples and events: what rows are sorted by.
[[nodiscard]] Cost sum(const Costs& costs);

// Time first; where files give no period, all have none and samples decide.
[[nodiscard]] bool costlier(const Cost& left, const Cost& right);

struct StackCost {
  std::uint32_t stack = 0;
  Kind kind = Kind::kOnCpu;
  Cost cost;
};

// Self and total of each function in `stacks`, most self first, then total, then name.
struct FunctionCost {
  std::uint32_t frame = 0;
  Costs self{}, total{};
};
[[nodiscard]] std::vector<FunctionCost> functions_of(const Recording& recording, const std::vector<StackCost>& stacks);

}  // namespace spanfold::report
