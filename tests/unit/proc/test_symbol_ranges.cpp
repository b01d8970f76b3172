// SPDX-License-Identifier: Apache-2.0
// Who owns a byte that several symbols claim: the rules one by one, and random tables against a model that decides
// each byte on its own.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

#include "proc/symbol_ranges.h"
#include "proc/symbol_table.h"

namespace spanfold::proc {
namespace {

bool lower_name(const Candidate& a, const Candidate& b) { return a.name < b.name; }

std::uint32_t owner(const SymbolRanges& ranges, std::uint64_t address) {
  const std::size_t index = ranges.find(address);
  return index == SymbolRanges::kNone ? 0 : ranges[index].name;
}

// Straight from the words in symbol_ranges.h. 0: nobody.
std::uint32_t model_owner(const std::vector<Candidate>& all, std::uint32_t at) {
  const auto covers = [&](const Candidate& symbol) { return symbol.start <= at && at - symbol.start < symbol.bytes; };
  const Candidate* best = nullptr;
  const auto key = [](const Candidate& symbol) { return std::tuple(~symbol.start, symbol.rank, symbol.name); };
  for (const Candidate& symbol : all) {
    if (symbol.bytes != 0 && covers(symbol) && (best == nullptr || key(symbol) < key(*best))) best = &symbol;
  }
  if (best != nullptr) return best->name;
  // The nearest beginning before decides whether an unsized one reaches here.
  std::uint32_t nearest = 0;
  for (const Candidate& symbol : all) {
    if (symbol.start <= at) nearest = std::max(nearest, symbol.start);
  }
  for (const Candidate& symbol : all) {
    if (symbol.start != nearest || symbol.start > at) continue;
    if (symbol.bytes != 0) return 0;
  }
  for (const Candidate& symbol : all) {
    if (symbol.bytes != 0 && symbol.start <= nearest && nearest - symbol.start < symbol.bytes) return 0;
    if (symbol.bytes != 0 || symbol.start != nearest || symbol.start > at) continue;
    if (best == nullptr || std::tuple(symbol.rank, symbol.name) < std::tuple(best->rank, best->name)) best = &symbol;
  }
  return best != nullptr && at < best->limit ? best->name : 0;
}

}  // namespace

TEST_CASE("symbols: nested, aliased, without size, past the end") {
  std::vector<Candidate> candidates = {
      {.start = 100, .bytes = 100, .name = 1},            // the outer
      {.start = 120, .bytes = 10, .name = 2},             // the inner
      {.start = 150, .limit = 1000, .name = 3},           // unsized inside a sized one: nobody
      {.start = 300, .bytes = 10, .name = 4, .rank = 2},  // a local alias that reaches further
      {.start = 300, .bytes = 5, .name = 5},              // than the global one
      {.start = 400, .limit = 1000, .name = 6},           // up to the next
      {.start = 450, .limit = 470, .name = 7},            // up to its section's end
      {.start = 500, .limit = 500, .name = 8},            // no room
  };
  const SymbolRanges ranges(1000, decide_ranges(candidates, lower_name));
  const auto owner_at = [&](std::uint64_t offset) { return owner(ranges, 1000 + offset); };
  CHECK(owner_at(99) == 0);
  CHECK(owner_at(119) == 1);
  CHECK(owner_at(120) == 2);
  CHECK(owner_at(130) == 1);
  CHECK(owner_at(199) == 1);
  CHECK(owner_at(200) == 0);
  CHECK(owner_at(304) == 5);
  CHECK(owner_at(305) == 4);
  CHECK(owner_at(310) == 0);
  CHECK(owner_at(449) == 6);
  CHECK(owner_at(450) == 7);
  CHECK(owner_at(470) == 0);
  CHECK(owner_at(500) == 0);
  CHECK(owner(ranges, 999) == 0);
  CHECK(owner(ranges, ~0ULL) == 0);
}

TEST_CASE("symbols: random tables equal the model, in any order of input") {
  std::mt19937 random(6);
  for (int round = 0; round < 3'000; ++round) {
    std::vector<Candidate> candidates;
    const auto count = static_cast<std::uint32_t>(1 + random() % 12);
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto start = static_cast<std::uint32_t>(random() % 60);
      candidates.push_back({.start = start,
                            .bytes = static_cast<std::uint32_t>(random() % 3 == 0 ? 0 : random() % 30),
                            .limit = start + static_cast<std::uint32_t>(random() % 30),
                            .name = i + 1,
                            .rank = static_cast<std::uint8_t>(random() % 3)});
    }
    // One limit for each start, as sections give it.
    for (Candidate& symbol : candidates) symbol.limit = 40 + symbol.start / 20 * 20;
    const std::vector<Candidate> all = candidates;
    const SymbolRanges ranges(0, decide_ranges(candidates, lower_name));
    for (std::uint32_t at = 0; at < 120; ++at) {
      INFO("round ", round, " at ", at);
      REQUIRE(owner(ranges, at) == model_owner(all, at));
    }
  }
}

TEST_CASE("symbols: the better name") {
  CHECK(is_better_name("read", "_read"));
  CHECK(is_better_name("_read", "__read"));
  CHECK(is_better_name("read", "read64"));
  CHECK(is_better_name("a", "b"));
  CHECK(!is_better_name("a", "a"));
  CHECK(!is_better_name("", "____"));
  CHECK(is_better_name("longer_without", "_x"));
}

}  // namespace spanfold::proc
