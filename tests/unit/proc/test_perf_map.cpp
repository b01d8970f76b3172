// SPDX-License-Identifier: Apache-2.0
// The text form of JIT compilers' logs: what real ones write, and what nobody should.
#include <doctest/doctest.h>

#include <random>
#include <string>

#include "proc/perf_map.h"

namespace spanfold::proc {
namespace {

// As JitLog does it, in pieces of `piece_bytes`.
void read_all(PerfMap& map, std::string_view text, JitTable& table, std::size_t piece_bytes) {
  std::uint64_t next = 0;
  while (next < text.size()) {
    const auto taken = map.take(text.substr(next, piece_bytes), static_cast<std::uint32_t>(next), table);
    REQUIRE(taken);
    if (*taken == 0) break;
    next += *taken;
  }
  table.settle(1'000'000);
}

std::string name_at(const PerfMap& map, const JitTable& table, std::string_view text, std::uint64_t address) {
  const JitCode* code = table.find(address);
  return code == nullptr ? "" : std::string(map.name(text.substr(map.named_at(*code)), *code));
}

constexpr std::string_view kText =
    "7f08ca7e50c0 254 JS:*hotInner /app/t.js:1:18\n"
    "0x00007f2458ecd400 0x0000000000000318 long Hot.outerCaller(int)\n"
    "7fa3c3dad660 b py::hot_inner:/app/t.py\n"
    "no line at all\n"
    "\n"
    "1000 0 covers nothing\n"
    "2000 10\n"
    "2000 10 \n"
    "2100 100000000 longer than any function\n"
    "fffffffffffffff0 20 around the end\n"
    "fffffffffffffffff 20 too many digits\n"
    "3000 10  two spaces\n"
    "-4000 10 negative\n"
    "5000 10 not complete";

}  // namespace

TEST_CASE("perf map: lines of V8, the JVM and CPython") {
  const PerfMap fresh;
  for (std::size_t piece = JitReader::kMaxEntryBytes; piece < JitReader::kMaxEntryBytes + 3; ++piece) {
    PerfMap map;
    JitTable table;
    read_all(map, kText, table, piece);
    const auto name = [&](std::uint64_t address) { return name_at(map, table, kText, address); };
    CHECK(name(0x7f08ca7e50c0) == "JS:*hotInner /app/t.js:1:18");
    CHECK(name(0x7f08ca7e50c0 + 0x253) == "JS:*hotInner /app/t.js:1:18");
    CHECK(name(0x7f08ca7e50c0 + 0x254).empty());
    CHECK(name(0x7f2458ecd400) == "long Hot.outerCaller(int)");
    CHECK(name(0x7fa3c3dad66a) == "py::hot_inner:/app/t.py");
    CHECK(name(0x3000) == "two spaces");
    CHECK(table.size() == 4);
  }
}

TEST_CASE("perf map: in pieces of every size, lines that are too long left out") {
  std::string text;
  for (int i = 0; i < 400; ++i) {
    text += "1" + std::to_string(1000 + i) + "0 10 function number " + std::to_string(i) + "\n";
    if (i == 200) text += "90000 10 " + std::string(100'000, 'x') + " 90100 10 not a line of its own\n";
    if (i == 300) text += "90200 10 " + std::string(JitReader::kMaxEntryBytes - 100, 'y') + "\n";
  }
  PerfMap map;
  JitTable table;
  read_all(map, text, table, 64UL * 1024);
  CHECK(table.size() == 401);
  CHECK(table.find(0x90000) == nullptr);
  CHECK(table.find(0x90100) == nullptr);
  CHECK(table.find(0x90200) != nullptr);
  CHECK(name_at(map, table, text, 0x113990) == "function number 399");
}

TEST_CASE("perf map: a name counts only while its line says what it said") {
  PerfMap map;
  JitTable table;
  read_all(map, "1000 100 first\n", table, 100'000);
  CHECK(name_at(map, table, "1000 100 first\n", 0x1010) == "first");
  CHECK(name_at(map, table, "1000 80 second\n", 0x1010).empty());
  CHECK(name_at(map, table, "2000 100 second\n", 0x1010).empty());
  CHECK(name_at(map, table, "1000 100 fir", 0x1010).empty());
  CHECK(name_at(map, table, "", 0x1010).empty());
}

TEST_CASE("perf map: random bytes never crash") {
  std::mt19937 random(7);
  for (int round = 0; round < 5'000; ++round) {
    std::string text(kText);
    for (int i = 0; i < 12; ++i) text[random() % text.size()] = static_cast<char>(random());
    PerfMap map;
    JitTable table;
    read_all(map, text, table, JitReader::kMaxEntryBytes);
    for (const JitCode& code : table.ranges()) (void)map.name(std::string_view(text).substr(code.where), code);
  }
}

}  // namespace spanfold::proc
