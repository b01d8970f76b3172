// SPDX-License-Identifier: Apache-2.0
// Who owns an address after entries that overlap, repeat and nest: against a plain array of bytes.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "proc/jit_table.h"

namespace spanfold::proc {
namespace {

constexpr std::size_t kMany = 1'000'000;

std::uint32_t owner(const JitTable& table, std::uint64_t address) {
  const JitCode* code = table.find(address);
  return code == nullptr ? 0 : code->where;
}

}  // namespace

TEST_CASE("jit table: the latest entry owns its bytes, earlier ones keep the rest") {
  JitTable table;
  table.add({1000, 256, 1});
  table.add({1064, 256, 2});
  CHECK(table.find(1000) == nullptr);
  SUBCASE("at once") {}
  SUBCASE("one after the other") {
    table.settle(kMany);
    CHECK(owner(table, 1063) == 1);
    CHECK(owner(table, 1064) == 2);
    CHECK(owner(table, 1000) == 1);
  }
  table.add({1000, 32, 3});
  CHECK(table.settle(kMany) == 0);
  CHECK(table.find(999) == nullptr);
  CHECK(owner(table, 1000) == 3);
  CHECK(owner(table, 1031) == 3);
  CHECK(owner(table, 1032) == 1);
  CHECK(owner(table, 1063) == 1);
  CHECK(owner(table, 1064) == 2);
  CHECK(owner(table, 1319) == 2);
  CHECK(table.find(1320) == nullptr);
}

TEST_CASE("jit table: one within another splits it, equal starts go by age") {
  JitTable table;
  table.add({100, 100, 1});
  table.add({140, 10, 2});
  table.add({100, 100, 3});
  table.add({120, 10, 4});
  table.settle(kMany);
  REQUIRE(table.size() == 3);
  CHECK(owner(table, 119) == 3);
  CHECK(owner(table, 120) == 4);
  CHECK(owner(table, 130) == 3);
  CHECK(owner(table, 145) == 3);
  CHECK(table.ranges()[2].start == 130);
  CHECK(table.ranges()[2].bytes == 70);
}

TEST_CASE("jit table: random entries, settled at random times, are what a plain array says") {
  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    JitTable table;
    std::array<std::uint32_t, 500> truth{};
    const int entries = 1 + static_cast<int>(random() % 200);
    for (std::uint32_t where = 1; where <= static_cast<std::uint32_t>(entries); ++where) {
      const auto start = static_cast<std::uint32_t>(random() % 450);
      const auto bytes = static_cast<std::uint32_t>(1 + random() % (random() % 4 == 0 ? 50 : 5));
      table.add({start, bytes, where});
      std::fill_n(truth.begin() + start, bytes, where);
      if (random() % 10 == 0) table.settle(kMany);
      const std::uint64_t probe = random() % truth.size();
      const JitCode* latest = table.find_latest(probe);
      REQUIRE((latest == nullptr ? 0 : latest->where) == truth[probe]);
    }
    table.settle(kMany);
    for (std::size_t address = 0; address < truth.size(); ++address) REQUIRE(owner(table, address) == truth[address]);
    std::uint64_t end = 0;
    for (const JitCode& code : table.ranges()) {
      REQUIRE(code.start >= end);
      end = code.start + code.bytes;
    }
  }
}

TEST_CASE("jit table: beyond the limit the oldest go, and what is left is right") {
  JitTable table;
  for (std::uint32_t i = 0; i < 1000; ++i) table.add({10'000 - i * 10, 10, i + 1});
  CHECK(table.settle(800) == 300);
  CHECK(table.size() == 700);
  CHECK(table.find(10'000) == nullptr);
  CHECK(owner(table, 10) == 1000);
  CHECK(owner(table, 10'000 - 300 * 10) == 301);
  CHECK(table.find(10'000 - 299 * 10) == nullptr);
  CHECK(table.settle(0) == 700);
  CHECK(table.size() == 0);
}

TEST_CASE("jit table: an entry that later ones cut to many pieces does not break the limit") {
  JitTable table;
  constexpr std::uint32_t kLater = 100;
  table.add({0, 10 * kLater, 1});
  for (std::uint32_t i = 0; i < kLater; ++i) table.add({i * 10 + 5, 1, i + 2});
  // 101 pieces of the first, and a hundred others.
  CHECK(table.settle(150) == 101);
  CHECK(table.size() == kLater);
  CHECK(table.find(0) == nullptr);
  CHECK(owner(table, 5) == 2);
  table.add({0, 10 * kLater, 500});
  for (std::uint32_t i = 0; i < kLater; ++i) table.add({i * 10 + 5, 1, i + 501});
  CHECK(table.settle(150) > 0);
  CHECK(table.size() <= 150);
}

TEST_CASE("jit table: a million entries take 16 bytes each") {
  JitTable table;
  for (std::uint32_t i = 0; i < kMany; ++i) table.add({std::uint64_t{i} * 64, 48, i + 1});
  table.settle(kMany);
  CHECK(table.size() == kMany);
  CHECK(table.memory_bytes() <= 16 * kMany);
}

}  // namespace spanfold::proc
