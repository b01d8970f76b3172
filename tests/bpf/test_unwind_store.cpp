// SPDX-License-Identifier: Apache-2.0
// Tables in the store: each address finds the row that it has in the table, and memory is used anew only when nobody
// can be reading it.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/file.h"
#include "bpf/extents.h"
#include "bpf/shared_array.h"
#include "bpf/unwind.h"
#include "proc/byte_source.h"
#include "tests/bpf/walks.hpp"
#include "unwind/cfi.h"

using bodytest::kProcess;
using bodytest::Walks;
using spanfold::Cfa;
using spanfold::UnwindRow;
using spanfold::UnwindRule;
using spanfold::UnwindTable;
using spanfold::bpf::Extents;
using spanfold::bpf::SharedArray;
using spanfold::bpf::UnwindRange;
using spanfold::bpf::UnwindSection;

namespace {

// What the programs would find at `address`: the number of its rule.
class Lookup {
 public:
  explicit Lookup(Walks& walks)
      : sections_(*SharedArray<sf_section>::map(bpf_map__fd(walks.maps().sections), SF_SECTIONS)),
        chunks_(*SharedArray<sf_chunk>::map(bpf_map__fd(walks.maps().chunks), bodytest::kChunks)),
        rules_(*SharedArray<sf_rule>::map(bpf_map__fd(walks.maps().rules), SF_RULES)) {}

  sf_rule rule_at(const std::vector<UnwindSection>& parts, std::uint64_t address) const {
    for (const UnwindSection& part : parts) {
      if (address < part.begin || address >= part.end) continue;
      const sf_section& section = sections_[part.number];
      REQUIRE(section.serial == part.serial);
      const std::uint32_t row =
          sf_row_at(chunks_[section.chunk].words, &section, static_cast<std::uint32_t>(address - part.begin));
      return rules_[sf_row_rule(row)];
    }
    return {};
  }

 private:
  SharedArray<sf_section> sections_;
  SharedArray<sf_chunk> chunks_;
  SharedArray<sf_rule> rules_;
};

bool is_same(const sf_rule& found, UnwindRule rule) {
  if (rule.cfa <= Cfa::kUnsupported) return found.cfa == static_cast<int>(rule.cfa);
  return found.cfa == static_cast<int>(rule.cfa) && found.offset == rule.offset && found.slot == rule.slot &&
         found.fp == static_cast<int>(rule.frame_pointer) && found.fp_offset == rule.fp_offset &&
         found.ra_offset == rule.ra_offset && found.reg == rule.reg;
}

// Around the beginning of each row, and where parts meet.
void check_all(const Lookup& lookup, const UnwindTable& table, const std::vector<UnwindSection>& parts) {
  std::size_t row = 0;
  const auto check = [&](std::uint64_t address) {
    if (address < table.base + table.rows.front().start || address >= table.base + table.rows.back().start) return;
    while (row + 1 < table.rows.size() && table.base + table.rows[row + 1].start <= address) ++row;
    CAPTURE(address);
    REQUIRE(is_same(lookup.rule_at(parts, address), table.rules[table.rows[row].rule]));
  };
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const std::uint64_t begin = table.base + table.rows[i].start;
    row = i;
    check(begin);
    if (i + 1 < table.rows.size()) check(table.base + table.rows[i + 1].start - 1);
  }
}

UnwindTable random_table(std::mt19937& random, std::size_t rows, std::uint32_t most_apart) {
  UnwindTable table{.base = 0x400000 + random() % 10'000};
  table.rules = {UnwindRule{}};
  for (int i = 1; i < 50; ++i) table.rules.push_back({.cfa = Cfa::kStackPointer, .offset = 8 * i, .ra_offset = -8});
  auto at = static_cast<std::uint32_t>(random() % 500);
  for (std::size_t i = 0; i < rows; ++i) {
    table.rows.push_back({at, 1 + static_cast<std::uint32_t>(random() % 49)});
    at += 1 + static_cast<std::uint32_t>(random() % most_apart);
  }
  table.rows.push_back({at, 0});
  return table;
}

}  // namespace

TEST_CASE("unwind store: each address finds the row of its table, dense or far apart, in one part or many") {
  std::mt19937 random(1);
  for (const auto& [rows, most_apart] : std::vector<std::pair<std::size_t, std::uint32_t>>{
           {1, 10}, {2, 1}, {3000, 1}, {3000, 3}, {100'000, 4}, {2000, 5000}, {100, 900'000}}) {
    Walks walks;
    const Lookup lookup(walks);
    const UnwindTable table = random_table(random, rows, most_apart);
    const auto parts = walks.store().add(table);
    REQUIRE(parts);
    check_all(lookup, table, *parts);
    CHECK(parts->front().begin == table.base + table.rows.front().start);
    CHECK(parts->back().end == table.base + table.rows.back().start);
    for (std::size_t i = 1; i < parts->size(); ++i) CHECK((*parts)[i].begin == (*parts)[i - 1].end);
    if (rows == 100'000) CHECK(parts->size() > 1);
  }
}

TEST_CASE("unwind store: the table of this program") {
  Walks walks;
  const Lookup lookup(walks);
  auto bytes = spanfold::read_file("/proc/self/exe", std::size_t{1} << 30);
  REQUIRE(bytes);
  const auto table = spanfold::unwind::read_table(spanfold::proc::MemorySource(*std::move(bytes)));
  REQUIRE(table);
  const auto parts = walks.store().add(*table);
  REQUIRE(parts);
  check_all(lookup, *table, *parts);
  MESSAGE(table->rows.size(), " rows, ", table->rules.size(), " rules");
}

TEST_CASE("unwind store: what was removed is found no more, and its room is used only after a grace period") {
  std::mt19937 random(2);
  Walks walks;
  spanfold::bpf::UnwindStore& store = walks.store();
  const std::size_t all = store.free_bytes();
  const UnwindTable table = random_table(random, 40'000, 4);
  std::vector<std::vector<UnwindSection>> tables;
  while (auto parts = store.add(table)) tables.push_back(*std::move(parts));
  CHECK(tables.size() > 5);
  store.before_grace();
  store.remove(tables[0]);
  CHECK(!store.add(table));
  store.after_grace();  // of a period that had begun before
  CHECK(!store.add(table));
  store.before_grace();
  store.after_grace();
  auto again = store.add(table);
  REQUIRE(again);
  // Whoever holds on to the old one does not mistake the new one for it.
  for (const UnwindSection& old : tables[0]) {
    for (const UnwindSection& fresh : *again) CHECK((old.number != fresh.number || old.serial != fresh.serial));
  }
  store.remove(tables[0]);  // twice does no harm
  for (const auto& each : tables) store.remove(each);
  store.remove(*again);
  store.before_grace();
  store.after_grace();
  CHECK(store.free_bytes() == all);
}

TEST_CASE("unwind store: rules are kept once, and those beyond what there is room for are unsupported") {
  Walks walks;
  const Lookup lookup(walks);
  UnwindTable table{.rules = {UnwindRule{}}};
  for (int i = 0; i < SF_RULES + 100; ++i) {
    table.rows.push_back({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i + 1)});
    table.rules.push_back({.cfa = Cfa::kStackPointer, .offset = i, .ra_offset = -8});
  }
  table.rows.push_back({SF_RULES + 100, 0});
  const auto parts = walks.store().add(table);
  REQUIRE(parts);
  CHECK(walks.store().rules() == SF_RULES);
  CHECK(walks.store().rules_left_out() > 100);
  CHECK(lookup.rule_at(*parts, 5).offset == 5);
  CHECK(lookup.rule_at(*parts, SF_RULES + 99).cfa == SF_CFA_UNSUPPORTED);
}

TEST_CASE("unwind store: spaces come, change and go") {
  Walks walks;
  spanfold::bpf::UnwindStore& store = walks.store();
  const std::vector<UnwindRange> most(bodytest::kRanges / 2 + 1, UnwindRange{.start = 0x1000, .bytes = 1});
  CHECK(store.set_space(kProcess, most));
  CHECK(!store.set_space(kProcess, most));  // the old ones are still in use
  store.before_grace();
  store.after_grace();
  CHECK(!store.set_space({.pid = 1}, most));
  store.remove_space(kProcess);
  store.before_grace();
  store.after_grace();
  CHECK(store.set_space({.pid = 1}, most));
}

TEST_CASE("extents: as a naive map of what is taken") {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const auto items = static_cast<std::uint32_t>(1 + random() % 300);
    Extents extents(items);
    std::vector<bool> taken(items);
    std::vector<std::pair<std::uint32_t, std::uint32_t>> held;
    for (int step = 0; step < 300; ++step) {
      if (random() % 2 == 0) {
        const auto want = static_cast<std::uint32_t>(1 + random() % 30);
        const auto first = extents.take(want);
        if (!first) continue;
        for (std::uint32_t i = *first; i < *first + want; ++i) {
          REQUIRE(i < items);
          REQUIRE(!taken[i]);
          taken[i] = true;
        }
        held.emplace_back(*first, want);
      } else if (!held.empty()) {
        std::swap(held[random() % held.size()], held.back());
        extents.give_back(held.back().first, held.back().second);
        extents.mark();
        extents.settle();
        for (std::uint32_t i = 0; i < held.back().second; ++i) taken[held.back().first + i] = false;
        held.pop_back();
      }
      REQUIRE(extents.free_items() == static_cast<std::uint32_t>(std::count(taken.begin(), taken.end(), false)));
    }
    for (const auto& [first, count] : held) extents.give_back(first, count);
    extents.mark();
    extents.settle();
    CHECK(extents.take(items) == 0U);
  }
}
