// SPDX-License-Identifier: Apache-2.0
// A Recording and a Query to rows: filters, groups, adds up, sorts.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/query.h"
#include "report/recording.h"

namespace spanfold::report {

using Costs = std::array<Cost, kKindCount>;  // by Kind

// Time of all kinds, then samples and events: what rows are sorted by.
[[nodiscard]] Cost sum(const Costs& costs);

struct StackCost {
  std::uint32_t stack = 0;
  Kind kind = Kind::kOnCpu;
  Cost cost;
};

struct Row {
  std::string key;
  std::optional<TraceId> trace_id;
  std::optional<SpanId> span_id;
  // Where all samples of the row agree.
  std::optional<std::int64_t> pid;
  std::optional<std::string> service, executable;
  Costs cost{};                   // by function: self
  std::optional<Costs> total;     // by function only: of stacks that hold it, recursion counted once
  std::vector<StackCost> stacks;  // most costly first
};

struct Answer {
  By by = By::kSpan;
  std::vector<Row> rows;  // most costly first, then by key; at most Query::top
  std::size_t cut_rows = 0;
  std::optional<Row> others;  // the sum of the rows that were cut
  Costs cost{};               // of all rows
};

[[nodiscard]] Answer answer(const Recording& recording, const Query& query);

// Self and total of each function in `stacks`, most self first, then total, then name.
struct FunctionCost {
  std::uint32_t frame = 0;
  Costs self{}, total{};
};
[[nodiscard]] std::vector<FunctionCost> functions_of(const Recording& recording, const std::vector<StackCost>& stacks);

inline constexpr std::string_view kNoSpanKey = "[no span]";
inline constexpr std::string_view kOtherProcessesKey = "[other processes]";
inline constexpr std::string_view kOthersKey = "[others]";

}  // namespace spanfold::report
