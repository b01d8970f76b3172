// SPDX-License-Identifier: Apache-2.0
// A compact, sorted table of disjoint address ranges, each with a name: what a symbol table becomes once it was decided
// which symbol owns which byte. Files and the kernel share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace spanfold::proc {

struct SymbolRange {
  std::uint32_t start = 0;  // bytes after the table's base
  std::uint32_t bytes = 0;
  std::uint32_t name = 0;  // offset in a string table that the owner knows
};

// One symbol before the decision.
struct Candidate {
  std::uint32_t start = 0;
  std::uint32_t bytes = 0;  // 0: the symbol gives no size
  std::uint32_t limit = 0;  // for those without a size: where they end at the latest (as start, after the base)
  std::uint32_t name = 0;
  std::uint8_t rank = 0;  // the smaller wins among symbols of one start
};

// True where the name of `a` is to be shown rather than that of `b`.
using BetterName = std::function<bool(const Candidate& a, const Candidate& b)>;

// The written rule for names of equal rank.
[[nodiscard]] bool is_better_name(std::string_view a, std::string_view b);

// Decides, deterministically:
// - a symbol with a size beats one without; one without fills a gap up to the next symbol or its limit, and is dropped
//   where a sized one covers its start;
// - of sized symbols that overlap, the one that starts later owns the common bytes (the inner of two nested ones), and
//   the outer one goes on behind it;
// - of symbols with one start, the smaller rank owns the common bytes, then the better name.
// What no symbol covers stays uncovered. `candidates` is sorted on the way.
[[nodiscard]] std::vector<SymbolRange> decide_ranges(std::vector<Candidate>& candidates, const BetterName& better_name);

class SymbolRanges {
 public:
  static constexpr std::size_t kNone = ~std::size_t{0};
  SymbolRanges() = default;
  SymbolRanges(std::uint64_t base, std::vector<SymbolRange> ranges) : base_(base), ranges_(std::move(ranges)) {}

  // Index of the range that holds `address`, or kNone.
  [[nodiscard]] std::size_t find(std::uint64_t address) const;
  [[nodiscard]] const SymbolRange& operator[](std::size_t index) const { return ranges_[index]; }
  [[nodiscard]] std::size_t size() const { return ranges_.size(); }
  [[nodiscard]] std::uint64_t base() const { return base_; }
  // For changes of names.
  [[nodiscard]] std::vector<SymbolRange>& all() { return ranges_; }
  [[nodiscard]] std::size_t memory_bytes() const { return ranges_.capacity() * sizeof(SymbolRange); }

 private:
  std::uint64_t base_ = 0;
  std::vector<SymbolRange> ranges_;
};

}  // namespace spanfold::proc
