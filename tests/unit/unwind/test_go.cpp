// SPDX-License-Identifier: Apache-2.0
// Rules of Go programs: as deep as Go's linker says in .debug_frame, which a stripped program has not; and how tables
// are laid over one another.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/file.h"
#include "proc/byte_source.h"
#include "unit/proc/fixture.h"
#include "unwind/cfi.h"
#include "unwind/go.h"

namespace spanfold::unwind {
namespace {

using proc::test::have_program;
using proc::test::TemporaryFolder;

constexpr const char* kProgram = R"(package main

import (
	"encoding/json"
	"fmt"
	"sort"
)

type T struct {
	A int
	B []string
}

func main() {
	var list []T
	for i := 0; i < 10; i++ {
		list = append(list, T{i, []string{fmt.Sprint(i)}})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].A > list[j].A })
	text, _ := json.Marshal(list)
	fmt.Println(string(text))
}
)";

proc::MemorySource source_of(const std::string& path) { return proc::MemorySource(*read_file(path, 1UL << 30)); }

const Rule& rule_at(const Table& table, std::uint64_t address) {
  static const Rule kNone{};
  if (address < table.base) return kNone;
  const auto next = std::upper_bound(table.rows.begin(), table.rows.end(), address - table.base,
                                     [](std::uint64_t value, const Row& row) { return value < row.start; });
  return next == table.rows.begin() ? kNone : table.rules[(next - 1)->rule];
}

std::string built(const TemporaryFolder& folder, const std::string& flags) {
  proc::test::write_text(folder / "a.go", kProgram);
  proc::test::output_of("cd " + folder.path().string() +
                        " && GOTOOLCHAIN=local GOFLAGS=-mod=mod CGO_ENABLED=0 go build " + flags + " -o a a.go 2>&1");
  return folder / "a";
}

Table table_of(std::vector<Row> rows, std::vector<Rule> rules, std::uint64_t base) {
  Table table;
  table.base = base;
  table.rows = std::move(rows);
  table.rules = std::move(rules);
  return table;
}

}  // namespace

TEST_CASE("go: a stripped program's rules are as deep as the linker says of one that is not") {
  if (!have_program("go") || !have_program("strip")) return;
  const TemporaryFolder folder;
  std::string flags;
  SUBCASE("fixed") { flags = "-buildmode=exe"; }
  SUBCASE("position-independent") { flags = "-buildmode=pie"; }
  // Compressed sections are read where zlib is there, too; here the plain ones do.
  const std::string file = built(folder, flags + " -ldflags=-compressdwarf=false");
  proc::test::output_of("strip -o " + (folder / "stripped") + " " + file);
  const auto truth = read_table(source_of(file));
  const auto go = read_go_table(source_of(folder / "stripped"));
  REQUIRE(truth);
  REQUIRE(go);
  CHECK(!read_table(source_of(folder / "stripped")));
  std::size_t compared = 0;
  std::size_t others = 0;
  for (std::size_t i = 0; i + 1 < go->rows.size(); ++i) {
    const Rule& rule = go->rules[go->rows[i].rule];
    for (const std::uint64_t at : {go->rows[i].start, go->rows[i + 1].start - 1}) {
      const Rule& said = rule_at(*truth, go->base + at);
      if (rule.cfa == Cfa::kNone && said.cfa == Cfa::kNone) continue;
      if (rule.cfa != Cfa::kStackPointer || said.cfa != Cfa::kStackPointer) {
        ++others;
        continue;
      }
      CAPTURE(go->base + at);
      REQUIRE(rule.offset == said.offset);
      ++compared;
    }
  }
  CHECK(compared > 20'000);
  // Roots, and functions that switch stacks.
  CHECK(others < 60);
  MESSAGE(compared, " places compared, ", others, " others; ", go->rows.size(), " rows, ", go->rules.size(), " rules");
}

TEST_CASE("go: what is no Go program has no such table") {
  CHECK(!read_go_table(proc::MemorySource("")));
  CHECK(!read_go_table(source_of("/proc/self/exe")));
}

TEST_CASE("go: a table laid over another one") {
  const Rule a{.cfa = Cfa::kStackPointer, .offset = 8};
  const Rule b{.cfa = Cfa::kStackPointer, .offset = 16};
  const Rule c{.cfa = Cfa::kFramePointer, .offset = 16};
  const Table outer = table_of({{0, 1}, {100, 2}, {200, 1}, {300, 0}}, {{}, a, b}, 1000);
  const Table inner = table_of({{0, 1}, {20, 0}, {30, 1}, {90, 0}}, {{}, c}, 1050);
  const Table both = laid_over(outer, inner);
  for (std::uint64_t address = 900; address < 1400; ++address) {
    const bool within = address >= 1050 && address < 1140;
    CAPTURE(address);
    REQUIRE(rule_at(both, address) == rule_at(within ? inner : outer, address));
  }
  const Table beside = table_of({{0, 1}, {50, 0}}, {{}, c}, 2000);
  const Table two = laid_over(outer, beside);
  for (std::uint64_t address = 900; address < 2100; ++address) {
    CAPTURE(address);
    REQUIRE(rule_at(two, address) == rule_at(address < 2000 ? outer : beside, address));
  }
  CHECK(laid_over({}, inner).rows == inner.rows);
  CHECK(laid_over(outer, {}).rows == outer.rows);
}

}  // namespace spanfold::unwind
