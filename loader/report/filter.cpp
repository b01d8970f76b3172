// SPDX-License-Identifier: Apache-2.0
#include "report/filter.h"

#include <algorithm>

namespace spanfold::report {
namespace {

template <typename Values, typename Value>
bool holds(const Values& values, const Value& value) {
  return values.empty() || std::find(values.begin(), values.end(), value) != values.end();
}

template <typename Items, typename Keep>
std::vector<bool> marks(const Items& items, Keep keep) {
  std::vector<bool> marked;
  marked.reserve(items.size());
  for (const auto& item : items) marked.push_back(keep(item));
  return marked;
}

}  // namespace

bool is_function(std::string_view name, std::string_view wanted) {
  if (name == wanted) return true;
  // "operator()" is part of a name, "(anonymous namespace)::" begins one: parameters open after the first byte of the
  // last part.
  const std::size_t parameters = name.find('(', 1);
  const std::string_view bare = name.substr(0, parameters);
  return !wanted.empty() &&
         (bare == wanted || (bare.ends_with(wanted) && bare.substr(0, bare.size() - wanted.size()).ends_with("::")));
}

Filter::Filter(const Recording& recording, const Query& query) {
  for (const Kind kind : query.kinds) kinds_[static_cast<std::size_t>(kind)] = true;
  if (!query.spans.empty() || !query.traces.empty()) {
    spans_ = marks(recording.spans(), [&](const SpanContext& span) {
      return span.valid() && holds(query.spans, span.span_id) && holds(query.traces, span.trace_id);
    });
  }
  if (!query.pids.empty() || !query.services.empty()) {
    processes_ = marks(recording.processes(), [&](const Process& process) {
      return (query.pids.empty() || (process.pid && holds(query.pids, *process.pid))) &&
             holds(query.services, process.service);
    });
  }
  if (!query.functions.empty()) {
    const std::vector<bool> frames = marks(recording.frames(), [&](const std::string& name) {
      return std::any_of(query.functions.begin(), query.functions.end(),
                         [&](const std::string& wanted) { return is_function(name, wanted); });
    });
    for (std::uint32_t stack = 0; stack < recording.stack_count(); ++stack) {
      const auto in_stack = recording.stack(stack);
      stacks_.push_back(
          std::any_of(in_stack.begin(), in_stack.end(), [&](std::uint32_t frame) { return frames[frame]; }));
    }
  }
}

bool Filter::keeps(const Entry& entry) const {
  return kinds_[static_cast<std::size_t>(entry.kind)] && (spans_.empty() || spans_[entry.span]) &&
         (processes_.empty() || processes_[entry.process]) && (stacks_.empty() || stacks_[entry.stack]);
}

bool Filter::keeps(const TimedStay& stay) const {
  return (spans_.empty() || spans_[stay.span]) && (processes_.empty() || processes_[stay.process]);
}

}  // namespace spanfold::report
