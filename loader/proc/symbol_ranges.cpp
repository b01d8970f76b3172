// SPDX-License-Identifier: Apache-2.0
#include "proc/symbol_ranges.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace spanfold::proc {
namespace {

using Candidates = std::vector<Candidate>;

// More aliases than any compiler makes; beyond it the first in order wins, so that a hostile table costs no more.
constexpr std::ptrdiff_t kMaxAliasesCompared = 64;

std::uint64_t end_of(const Candidate& symbol) { return std::uint64_t{symbol.start} + symbol.bytes; }

auto order(const Candidate& symbol) {
  return std::tuple(symbol.start, symbol.bytes == 0, symbol.rank, ~symbol.bytes, symbol.name);
}

// Orders those of one start that are equal but for their names. By insertion: names come out of a file that may change
// meanwhile, and contradictory comparisons must do no harm.
void settle_names(Candidates& candidates, const BetterName& better_name) {
  const auto equal = [](const Candidate& a, const Candidate& b) {
    return a.start == b.start && a.rank == b.rank && (a.bytes == 0) == (b.bytes == 0);
  };
  for (auto first = candidates.begin(); first != candidates.end();) {
    auto next = first + 1;
    for (; next != candidates.end() && equal(*next, *first); ++next) {
      if (next - first >= kMaxAliasesCompared) continue;
      auto place = next;
      while (place != first && better_name(*next, *(place - 1))) --place;
      std::rotate(place, next, next + 1);
    }
    first = next;
  }
}

// Gives symbols without a size the room up to their neighbour, and drops those that have none. Keeps the order.
void size_the_unsized(Candidates& candidates) {
  std::uint64_t covered = 0;  // up to here some sized symbol reaches
  std::size_t kept = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Candidate symbol = candidates[i];
    const bool alias = i > 0 && candidates[i - 1].start == symbol.start;
    if (symbol.bytes == 0) {
      if (alias || symbol.start < covered) continue;
      std::size_t next = i + 1;
      while (next < candidates.size() && candidates[next].start == symbol.start) ++next;
      const std::uint32_t neighbour =
          next < candidates.size() ? candidates[next].start : std::numeric_limits<std::uint32_t>::max();
      const std::uint32_t end = std::min(neighbour, symbol.limit);
      if (end <= symbol.start) continue;
      symbol.bytes = end - symbol.start;
    } else {
      covered = std::max(covered, end_of(symbol));
    }
    candidates[kept++] = symbol;
  }
  candidates.resize(kept);
}

// Cuts sorted, overlapping symbols into disjoint ranges. The open ones form a stack: what starts later is on top.
class Cutter {
 public:
  void open(const Candidate& symbol) { open_.push_back(symbol); }
  // Emits what the open symbols own before `until`.
  void advance(std::uint64_t until) {
    while (!open_.empty() && at_ < until) {
      const Candidate& top = open_.back();
      const std::uint64_t end = std::min(end_of(top), until);
      if (end > at_) {
        ranges_.push_back({static_cast<std::uint32_t>(at_), static_cast<std::uint32_t>(end - at_), top.name});
        at_ = end;
      }
      if (end_of(top) <= at_) open_.pop_back();
    }
    at_ = until;
  }
  std::vector<SymbolRange> take() {
    ranges_.shrink_to_fit();
    return std::move(ranges_);
  }

 private:
  std::uint64_t at_ = 0;
  Candidates open_;
  std::vector<SymbolRange> ranges_;
};

}  // namespace

bool is_better_name(std::string_view a, std::string_view b) {
  const auto key = [](std::string_view name) {
    const std::size_t underscores = std::min(name.find_first_not_of('_'), name.size());
    return std::tuple(name.empty(), underscores, name.size(), name);
  };
  return key(a) < key(b);
}

std::vector<SymbolRange> decide_ranges(Candidates& candidates, const BetterName& better_name) {
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return order(a) < order(b); });
  settle_names(candidates, better_name);
  size_the_unsized(candidates);
  Cutter cutter;
  for (std::size_t i = 0; i < candidates.size();) {
    const std::uint32_t start = candidates[i].start;
    cutter.advance(start);
    std::size_t group_end = i;
    while (group_end < candidates.size() && candidates[group_end].start == start) ++group_end;
    // The winner goes on top; an alias only matters where it reaches further than every better one.
    std::vector<std::size_t> reaching;
    std::uint64_t reach = 0;
    for (std::size_t j = i; j < group_end; ++j) {
      if (end_of(candidates[j]) <= reach) continue;
      reach = end_of(candidates[j]);
      reaching.push_back(j);
    }
    std::for_each(reaching.rbegin(), reaching.rend(), [&](std::size_t index) { cutter.open(candidates[index]); });
    i = group_end;
  }
  cutter.advance(std::numeric_limits<std::uint64_t>::max());
  return cutter.take();
}

std::size_t SymbolRanges::find(std::uint64_t address) const {
  if (address < base_ || address - base_ > std::numeric_limits<std::uint32_t>::max()) return kNone;
  const auto offset = static_cast<std::uint32_t>(address - base_);
  const auto next = std::upper_bound(ranges_.begin(), ranges_.end(), offset,
                                     [](std::uint32_t value, const SymbolRange& range) { return value < range.start; });
  if (next == ranges_.begin()) return kNone;
  const auto holder = next - 1;
  if (offset - holder->start >= holder->bytes) return kNone;
  return static_cast<std::size_t>(holder - ranges_.begin());
}

}  // namespace spanfold::proc
