// SPDX-License-Identifier: Apache-2.0
#include "compare.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "world.h"

namespace spanfold::unwind::test {
namespace {

// The written rules of what may differ: a rule may be kUnsupported, or know nothing of the frame pointer, only where
// the truth is not plain. Nothing else may.
bool agrees(const Rule& rule, const Truth& truth, const Caller& ours, Tally& tally) {
  ++tally.comparisons;
  if (rule.cfa == Cfa::kUnsupported) {
    ++tally.unsupported;
    return !truth.is_plain;
  }
  if (!ours.is_known) return false;
  const Caller& theirs = truth.caller;
  const bool is_half_known = !ours.frame_pointer && theirs.frame_pointer;
  if (is_half_known) ++tally.half_known;
  return ours.is_known == theirs.is_known && ours.is_bottom == theirs.is_bottom &&
         ours.stack_pointer == theirs.stack_pointer && ours.return_address == theirs.return_address &&
         (is_half_known ? !truth.has_plain_frame_pointer : ours.frame_pointer == theirs.frame_pointer);
}

constexpr World kWorlds[] = {{1}, {2}};

void compare_by(const Table& table, const TrueFile& file, std::uint64_t address, const Truth& truth, const World& world,
                Tally& tally) {
  const Rule& rule = rule_at(table, address);
  const Caller ours = follow(rule, file.machine(), world, address);
  if (agrees(rule, truth, ours, tally)) return;
  FAIL_CHECK(
      fmt::format("{:x}: {} gives {}, truth is {}", address, text_of(rule), text_of(ours), text_of(truth.caller)));
}

// The first address, the second, and the last one that a row holds for.
std::vector<std::uint64_t> probes_of(std::uint64_t begin, std::uint64_t end) {
  std::vector<std::uint64_t> probes{begin, begin + 1, end - 1};
  std::sort(probes.begin(), probes.end());
  probes.erase(std::unique(probes.begin(), probes.end()), probes.end());
  std::erase_if(probes, [&](std::uint64_t probe) { return probe >= end; });
  return probes;
}

// One description for each address, by the rules that cfi.h tells.
std::vector<NaiveFunction> functions_of(const TrueFile& file) {
  std::vector<NaiveFunction> functions;
  file.each_function([&](const NaiveFunction& function) { functions.push_back(function); });
  std::stable_sort(functions.begin(), functions.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  functions.erase(
      std::unique(functions.begin(), functions.end(), [](const auto& a, const auto& b) { return a.begin == b.begin; }),
      functions.end());
  for (std::size_t i = 0; i + 1 < functions.size(); ++i) {
    functions[i].end = std::min(functions[i].end, functions[i + 1].begin);
  }
  return functions;
}

}  // namespace

Tally compare_with_naive(const Table& table, const TrueFile& file, std::uint64_t every) {
  Tally tally;
  std::uint64_t last_end = 0;
  for (const NaiveFunction& function : functions_of(file)) {
    for (const NaiveRow& row : function.rows) {
      const std::uint64_t end = std::min(row.end, function.end);
      if (tally.functions % every != 0 || row.begin >= end) continue;
      ++tally.rows;
      for (const std::uint64_t address : probes_of(row.begin, end)) {
        const World& world = kWorlds[address % 2];
        compare_by(table, file, address, file.truth_of(row, world, address), world, tally);
      }
    }
    // Between functions: padding goes on, anything larger is unknown.
    if (function.begin >= last_end + 16) CHECK(rule_at(table, last_end).cfa == Cfa::kNone);
    if (function.begin >= last_end + 16) CHECK(rule_at(table, function.begin - 1).cfa == Cfa::kNone);
    last_end = function.end;
    ++tally.functions;
  }
  CHECK(rule_at(table, last_end).cfa == Cfa::kNone);
  return tally;
}

Tally compare_with_libdw(const Table& table, const TrueFile& file, std::uint64_t every) {
  Tally tally;
  std::uint64_t i = 0;
  for (const NaiveFunction& function : functions_of(file)) {
    if (i++ % every != 0) continue;
    ++tally.functions;
    for (std::uint64_t at = function.begin; at < function.end;) {
      Truth truth;
      std::uint64_t begin = 0;
      std::uint64_t end = 0;
      const World& world = kWorlds[at % 2];
      if (!file.ask_libdw(at, world, truth, begin, end)) {
        FAIL_CHECK(fmt::format("libdw knows nothing of {:x}", at));
        break;
      }
      ++tally.rows;
      // libdw gives up where a register or an offset alone follows an expression; libgcc reads on, and so do we.
      const bool is_given_up = function.has_half_frame && !truth.caller.is_known;
      if (is_given_up) {
        ++tally.unknown_to_libdw;
        at = end;
        continue;
      }
      // One that depends on the address itself holds for the address that was asked.
      const bool is_plt = rule_at(table, at).cfa == Cfa::kPlt;
      for (const std::uint64_t address : probes_of(at, std::min(end, function.end))) {
        if (is_plt && !file.ask_libdw(address, world, truth, begin, end)) FAIL_CHECK("libdw lost a row");
        compare_by(table, file, address, truth, world, tally);
      }
      at = std::max(end, at + 1);
    }
  }
  return tally;
}

}  // namespace spanfold::unwind::test
