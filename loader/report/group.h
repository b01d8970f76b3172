// SPDX-License-Identifier: Apache-2.0
// A Recording and a Query to rows: filters, groups, adds up, sorts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/costs.h"
#include "report/query.h"
#include "report/recording.h"
#include "report/span_times.h"

namespace spanfold::report {

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
  std::optional<Times> times;     // where known; never by function or stack
  std::optional<bool> ended;      // by span only: its end was seen
};

struct Answer {
  By by = By::kSpan;
  bool of_named_spans = false;  // asked for by their ids
  std::vector<Row> rows;        // most costly first, then by key; at most Query::top
  std::size_t cut_rows = 0;
  std::optional<Row> others;  // the sum of the rows that were cut
  Costs cost{};               // of all rows
};

[[nodiscard]] Answer answer(const Recording& recording, const Query& query);

inline constexpr std::string_view kNoSpanKey = "[no span]";
inline constexpr std::string_view kOtherProcessesKey = "[other processes]";
inline constexpr std::string_view kOthersKey = "[others]";

}  // namespace spanfold::report
