// SPDX-License-Identifier: Apache-2.0
#include "report/group.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "report/filter.h"
#include "report/row_maker.h"
#include "report/span_times.h"

namespace spanfold::report {
namespace {

class Grouper {
 public:
  Grouper(const Recording& recording, const Query& query)
      : recording_(recording), query_(query), maker_(recording, query.by), sampled_(recording.spans().size()) {}

  Answer group() {
    const Filter filter(recording_, query_);
    for (const Entry& entry : recording_.entries) {
      if (filter.keeps(entry)) add(entry);
    }
    if (query_.by == By::kFunction) add_totals();
    std::vector<GroupTimes> timed_only = add_times(filter);
    Answer result{.by = query_.by, .of_named_spans = !query_.spans.empty(), .cost = cost_};
    select_rows(result);
    add_timed_rows(std::move(timed_only), result);
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
    maker_.agree(row, entry.process);
    parts_.push_back({number, entry.stack, entry.kind, entry.cost});
    sampled_[entry.span] = true;
  }

  std::uint64_t group_of(const Entry& entry) {
    switch (query_.by) {
      case By::kSpan: return entry.span;
      case By::kTrace: {
        const SpanContext& span = recording_.spans()[entry.span];
        return traces_.try_emplace(span.trace_id, traces_.size()).first->second;
      }
      case By::kService: return services_.try_emplace(maker_.service_key(entry), services_.size()).first->second;
      case By::kProcess: return entry.process;
      case By::kFunction: return recording_.stack(entry.stack).front();
      case By::kStack: return entry.stack;
    }
    return 0;
  }

  std::uint32_t row_of(std::uint64_t group, const Entry& entry) {
    const auto [known_row, added] = row_numbers_.try_emplace(group, static_cast<std::uint32_t>(rows_.size()));
    if (added) rows_.push_back(maker_.make(entry));
    return known_row->second;
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

  static Entry as_entry(const TimedStay& stay) { return {.process = stay.process, .span = stay.span}; }

  // Gives rows the times of their spans; what it returns are groups that have no row, for they have no samples.
  std::vector<GroupTimes> add_times(const Filter& filter) {
    if (query_.by == By::kFunction || query_.by == By::kStack) return {};
    std::vector<std::uint32_t> groups(recording_.stays.size(), kNoGroup);
    for (std::size_t at = 0; at < groups.size(); ++at) {
      const TimedStay& stay = recording_.stays[at];
      // Whoever asks for a function asks for the spans that ran it.
      const bool wanted = filter.keeps(stay) && (query_.functions.empty() || sampled_[stay.span]);
      if (wanted) groups[at] = static_cast<std::uint32_t>(group_of(as_entry(stay)));
    }
    times_ = SpanTimes(recording_, groups);
    std::vector<GroupTimes> rest;
    for (const GroupTimes& group : times_.groups()) {
      const auto row = row_numbers_.find(group.number);
      if (row != row_numbers_.end()) {
        set_times(rows_[row->second], group);
      } else {
        rest.push_back(group);
      }
    }
    const bool on_cpu = std::find(query_.kinds.begin(), query_.kinds.end(), Kind::kOnCpu) != query_.kinds.end();
    return on_cpu && query_.functions.empty() ? rest : std::vector<GroupTimes>();
  }

  void set_times(Row& row, const GroupTimes& group) const {
    row.times = group.times;
    if (query_.by == By::kSpan) row.ended = group.ended;
    for (const std::uint32_t at : times_.stays_of(group)) maker_.agree(row, recording_.stays[at].process);
  }

  // Rows without samples, by key: as many as there is room for below those with samples.
  void add_timed_rows(std::vector<GroupTimes> groups, Answer& result) {
    const std::size_t kept = std::min(query_.top - rows_.size(), groups.size());
    const auto first_cut = groups.begin() + static_cast<std::ptrdiff_t>(kept);
    const auto before = [this](const GroupTimes& left, const GroupTimes& right) {
      return key_before(first_of(left), first_of(right));
    };
    // Faster than partial_sort where nearly all are kept.
    std::nth_element(groups.begin(), first_cut, groups.end(), before);
    std::sort(groups.begin(), first_cut, before);
    rows_.reserve(rows_.size() + kept);
    for (auto group = groups.begin(); group != first_cut; ++group) {
      Row row = maker_.make(first_of(*group));
      set_times(row, *group);
      rows_.push_back(std::move(row));
    }
    if (first_cut == groups.end()) return;
    result.cut_rows += groups.size() - kept;
    if (!result.others) result.others = Row{.key = std::string(kOthersKey)};
    for (auto group = first_cut; group != groups.end(); ++group) add_up(result.others->times, group->times);
  }

  [[nodiscard]] Entry first_of(const GroupTimes& group) const {
    return as_entry(recording_.stays[times_.stays_of(group).front()]);
  }

  // The order of keys, without making them where there may be very many.
  [[nodiscard]] bool key_before(const Entry& left, const Entry& right) const {
    const SpanContext& first = recording_.spans()[left.span];
    const SpanContext& second = recording_.spans()[right.span];
    if (query_.by == By::kSpan) {
      return std::tie(first.span_id, first.trace_id) < std::tie(second.span_id, second.trace_id);
    }
    if (query_.by == By::kTrace) return first.trace_id < second.trace_id;
    const Row one = maker_.make(left);
    const Row other = maker_.make(right);
    return std::tie(one.key, one.service, one.executable) < std::tie(other.key, other.service, other.executable);
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
        if (row.times) add_up(result.others->times, *row.times);
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
  RowMaker maker_;
  std::vector<Row> rows_;
  std::unordered_map<std::uint64_t, std::uint32_t> row_numbers_;  // by group
  std::map<TraceId, std::uint64_t> traces_;
  std::map<std::string, std::uint64_t> services_;
  std::vector<Part> parts_;
  std::vector<bool> sampled_;  // by number of a span
  SpanTimes times_;
  std::vector<std::uint32_t> places_;       // of rows, after those that stay were chosen; kCut: of none
  std::vector<std::uint32_t> frame_names_;  // places of frames in the order of names
  Costs cost_{};
};

}  // namespace

Answer answer(const Recording& recording, const Query& query) { return Grouper(recording, query).group(); }

}  // namespace spanfold::report
