// SPDX-License-Identifier: Apache-2.0
// Compares a table with the truth about a file, row by row.
#pragma once

#include <cstdint>

#include "naive.h"
#include "unwind/rule.h"

namespace spanfold::unwind::test {

struct Tally {
  std::uint64_t rows = 0;  // of the truth
  std::uint64_t comparisons = 0;
  std::uint64_t unsupported = 0;
  std::uint64_t half_known = 0;  // without the frame pointer
  std::uint64_t functions = 0;
  std::uint64_t unknown_to_libdw = 0;  // rows

  void add(const Tally& other) {
    rows += other.rows;
    comparisons += other.comparisons;
    unsupported += other.unsupported;
    half_known += other.half_known;
    functions += other.functions;
    unknown_to_libdw += other.unknown_to_libdw;
  }
};

// Each of these asks at the first, the second and the last address of every row of the truth; of every `every`th
// function. What differs fails the test.
Tally compare_with_naive(const Table& table, const TrueFile& file, std::uint64_t every);
Tally compare_with_libdw(const Table& table, const TrueFile& file, std::uint64_t every);

}  // namespace spanfold::unwind::test
