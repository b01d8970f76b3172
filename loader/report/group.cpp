// SPDX-License-Identifier: Apache-2.0
#include "report/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "report/filter.h"
#include "report/ids.h"

namespace spanfold::report {
namespace {

Costs& operator+=(Costs& left, const Costs& right) {
  for (std::size_t kind = 0; kind < kKindCount; ++kind) left[kind] += right[kind];
  return left;
}

Cost& of(Costs& costs, Kind kind) { return costs[static_cast<std::size_t>(kind)]; }

// Time first; where files give no period, all have none and samples decide.
bool costlier(const Cost& left, const Cost& right) {
  return std::tie(left.ns, left.count) > std::tie(right.ns, right.count);
}

template <typename Value>
void agree(std::optional<Value>& common, const std::optional<Value>& value) {
  if (common != value) common.reset();
}

std::optional<std::string> known(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional<std::string>(text);
}

class Grouper {
 public:
  Grouper(const Recording& recording, const Query& query) : recording_(recording), query_(query) {}

  Answer group() {
    const Filter filter(recording_, query_);
    for (const Entry& entry : recording_.entries) {
      if (filter.keeps(entry)) add(entry);
    }
    if (query_.by == By::kFunction) add_totals();
    Answer result{.by = query_.by, .cost = cost_};
    select_rows(result);
    gather_stacks();
    rank_names();
    for (Row& row : rows_) sort_stacks(row);
    result.rows = std::move(rows_);
    return result;
  }

 private:
  static constexpr std::uint32_t kCut = UINT32_MAX;

  // One entry's part in a row.
  struct Part {
    std::uint32_t row, stack;
    Kind kind;
    Cost cost;
    [[nodiscard]] auto identity() const { return std::tie(row, stack, kind); }
  };

  void add(const Entry& entry) {
    const std::uint32_t number = row_of(group_of(entry), entry);
    Row& row = rows_[number];
    of(row.cost, entry.kind) += entry.cost;
    of(cost_, entry.kind) += entry.cost;
    const Process& process = recording_.processes()[entry.process];
    agree(row.pid, process.pid);
    agree(row.service, known(process.service));
    agree(row.executable, known(process.executable));
    parts_.push_back({number, entry.stack, entry.kind, entry.cost});
  }

  std::uint64_t group_of(const Entry& entry) {
    switch (query_.by) {
      case By::kSpan: return entry.span;
      case By::kTrace: {
        const SpanContext& span = recording_.spans()[entry.span];
        return traces_.try_emplace(span.trace_id, traces_.size()).first->second;
      }
      case By::kService: return services_.try_emplace(service_key(entry), services_.size()).first->second;
      case By::kProcess: return entry.process;
      case By::kFunction: return recording_.stack(entry.stack).front();
      case By::kStack: return entry.stack;
    }
    return 0;
  }

  std::string service_key(const Entry& entry) const {
    const Process& process = recording_.processes()[entry.process];
    if (!process.service.empty()) return process.service;
    return process.executable.empty() ? std::string(kOtherProcessesKey) : process.executable;
  }

  std::uint32_t row_of(std::uint64_t group, const Entry& entry) {
    const auto [known_row, added] = row_numbers_.try_emplace(group, static_cast<std::uint32_t>(rows_.size()));
    if (!added) return known_row->second;
    Row row;
    const Process& process = recording_.processes()[entry.process];
    row.pid = process.pid;
    row.service = known(process.service);
    row.executable = known(process.executable);
    name(row, entry);
    rows_.push_back(std::move(row));
    return known_row->second;
  }

  void name(Row& row, const Entry& entry) const {
    const SpanContext& span = recording_.spans()[entry.span];
    switch (query_.by) {
      case By::kSpan:
        row.key = span.valid() ? hex(span.span_id) : std::string(kNoSpanKey);
        if (span.valid()) row.span_id = span.span_id;
        if (span.valid()) row.trace_id = span.trace_id;
        break;
      case By::kTrace:
        row.key = span.valid() ? hex(span.trace_id) : std::string(kNoSpanKey);
        if (span.valid()) row.trace_id = span.trace_id;
        break;
      case By::kService: row.key = service_key(entry); break;
      case By::kProcess: row.key = row.pid ? fmt::to_string(*row.pid) : service_key(entry); break;
      case By::kFunction: row.key = recording_.frames()[recording_.stack(entry.stack).front()]; break;
      case By::kStack: {
        const auto frames = recording_.stack(entry.stack);
        // NOLINTNEXTLINE(modernize-loop-convert): clang 14 cannot compile the library's reverse_view
        for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
          row.key += (row.key.empty() ? "" : ";") + recording_.frames()[*frame];
        }
        break;
      }
    }
  }

  // Functions that only call others have a row too.
  void add_totals() {
    std::vector<StackCost> stacks;
    for (const Part& part : parts_) stacks.push_back({part.stack, part.kind, part.cost});
    for (const FunctionCost& function : functions_of(recording_, stacks)) {
      const auto [row, added] = row_numbers_.try_emplace(function.frame, static_cast<std::uint32_t>(rows_.size()));
      if (added) rows_.push_back({.key = recording_.frames()[function.frame]});
      rows_[row->second].total = function.total;
    }
  }

  // The first `top` rows in their order, the sum of the others. Stacks are gathered for the rows that stay only.
  void select_rows(Answer& result) {
    struct Rank {
      Cost cost, total;
      std::uint32_t row;
    };
    std::vector<Rank> order;
    for (std::uint32_t row = 0; row < rows_.size(); ++row) {
      order.push_back({sum(rows_[row].cost), sum(rows_[row].total.value_or(Costs{})), row});
    }
    const std::size_t kept = std::min(query_.top, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                      [this](const Rank& left, const Rank& right) {
                        if (left.cost != right.cost) return costlier(left.cost, right.cost);
                        if (left.total != right.total) return costlier(left.total, right.total);
                        const Row& first = rows_[left.row];
                        const Row& second = rows_[right.row];
                        return std::tie(first.key, first.trace_id, first.service, first.executable) <
                               std::tie(second.key, second.trace_id, second.service, second.executable);
                      });
    result.cut_rows = order.size() - kept;
    if (result.cut_rows != 0) result.others = Row{.key = std::string(kOthersKey)};
    std::vector<Row> rows;
    places_.assign(rows_.size(), kCut);
    for (std::size_t at = 0; at < order.size(); ++at) {
      Row& row = rows_[order[at].row];
      if (at >= kept) {
        result.others->cost += row.cost;
        continue;
      }
      places_[order[at].row] = static_cast<std::uint32_t>(at);
      rows.push_back(std::move(row));
    }
    rows_ = std::move(rows);
  }

  // Equal stacks of a row become one.
  void gather_stacks() {
    for (Part& part : parts_) part.row = places_[part.row];
    std::erase_if(parts_, [](const Part& part) { return part.row == kCut; });
    std::sort(parts_.begin(), parts_.end(),
              [](const Part& left, const Part& right) { return left.identity() < right.identity(); });
    const Part* before = nullptr;
    for (const Part& part : parts_) {
      std::vector<StackCost>& stacks = rows_[part.row].stacks;
      if (before != nullptr && before->identity() == part.identity()) {
        stacks.back().cost += part.cost;
      } else {
        stacks.push_back({part.stack, part.kind, part.cost});
      }
      before = &part;
    }
  }

  void sort_stacks(Row& row) const {
    const auto by_names = [this](std::uint32_t left, std::uint32_t right) {
      return frame_names_[left] < frame_names_[right];
    };
    std::sort(row.stacks.begin(), row.stacks.end(), [&](const StackCost& left, const StackCost& right) {
      if (left.cost != right.cost) return costlier(left.cost, right.cost);
      if (left.stack == right.stack) return left.kind < right.kind;
      const auto first = recording_.stack(left.stack);
      const auto second = recording_.stack(right.stack);
      return std::lexicographical_compare(first.begin(), first.end(), second.begin(), second.end(), by_names);
    });
  }

  // Places of the frames' names in their order: numbers compare faster than names.
  void rank_names() {
    const auto& names = recording_.frames();
    std::vector<std::uint32_t> order(names.size());
    for (std::uint32_t frame = 0; frame < order.size(); ++frame) order[frame] = frame;
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t left, std::uint32_t right) { return names[left] < names[right]; });
    frame_names_.resize(order.size());
    for (std::uint32_t place = 0; place < order.size(); ++place) frame_names_[order[place]] = place;
  }

  const Recording& recording_;
  const Query& query_;
  std::vector<Row> rows_;
  std::unordered_map<std::uint64_t, std::uint32_t> row_numbers_;  // by group
  std::map<TraceId, std::uint64_t> traces_;
  std::map<std::string, std::uint64_t> services_;
  std::vector<Part> parts_;
  std::vector<std::uint32_t> places_;       // of rows, after those that stay were chosen; kCut: of none
  std::vector<std::uint32_t> frame_names_;  // places of frames in the order of names
  Costs cost_{};
};

}  // namespace

Cost sum(const Costs& costs) {
  Cost all;
  for (const Cost& cost : costs) all += cost;
  return all;
}

Answer answer(const Recording& recording, const Query& query) { return Grouper(recording, query).group(); }

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
