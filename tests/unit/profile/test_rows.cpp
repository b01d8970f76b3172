// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <map>
#include <random>

#include "profile/row_memory.h"

namespace spanfold::profile {
namespace {

Hash128 key(std::uint64_t number) { return Hasher({1, 2}).word(number).result(); }

}  // namespace

TEST_CASE("RowTable is a map") {
  RowTable table;
  CHECK(table.find(key(1)) == 0);
  for (std::uint32_t row = 1; row <= 10'000; ++row) table.insert(key(row), row);
  CHECK(table.size() == 10'000);
  for (std::uint32_t row = 1; row <= 10'000; ++row) REQUIRE(table.find(key(row)) == row);
  CHECK(table.find(key(10'001)) == 0);
  table.clear();
  CHECK(table.find(key(1)) == 0);
}

TEST_CASE("RowMemory knows at least the rows used last") {
  constexpr std::size_t kLimit = 100;
  RowMemory memory(kLimit);
  std::mt19937 random(3);
  std::map<std::uint64_t, std::uint64_t> last_use;
  for (std::uint64_t now = 1; now < 20'000; ++now) {
    const std::uint64_t number = random() % 400;
    const std::uint32_t found = memory.find(key(number));
    if (found != 0) REQUIRE(found == number + 1);
    // Other rows used since this one was: fewer than the limit, and it must be known.
    std::size_t others = 0;
    for (const auto& [other, used] : last_use) others += used > last_use[number] ? 1 : 0;
    if (last_use[number] != 0 && others < kLimit) REQUIRE(found != 0);
    if (found == 0) memory.insert(key(number), static_cast<std::uint32_t>(number + 1));
    last_use[number] = now;
  }
}

TEST_CASE("RowMemory without a limit forgets nothing") {
  RowMemory memory(0);
  for (std::uint32_t row = 1; row <= 5000; ++row) memory.insert(key(row), row);
  for (std::uint32_t row = 1; row <= 5000; ++row) REQUIRE(memory.find(key(row)) == row);
}

TEST_CASE("hashes tell content apart") {
  const Hash128 seed{5, 6};
  CHECK(Hasher(seed).bytes("ab").bytes("c").result() != Hasher(seed).bytes("a").bytes("bc").result());
  CHECK(Hasher(seed).bytes("").result() != Hasher(seed).result());
  CHECK(Hasher(seed).bytes(std::string(1, '\0')).result() != Hasher(seed).bytes("").result());
  CHECK(Hasher(seed).bytes("12345678").result() != Hasher(seed).bytes("12345679").result());
  CHECK(Hasher(seed).word(1).result() != Hasher(Hash128{6, 5}).word(1).result());
  std::map<std::uint64_t, int> lows;
  for (std::uint64_t number = 0; number < 100'000; ++number) ++lows[key(number).low];
  CHECK(lows.size() == 100'000);
}

}  // namespace spanfold::profile
