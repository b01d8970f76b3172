// SPDX-License-Identifier: Apache-2.0
// The binary form of JIT compilers' logs: records that load and move code, cut anywhere, broken anywhere.
#include <doctest/doctest.h>

#include <chrono>
#include <random>
#include <string>

#include "jit_fixture.h"
#include "proc/jit_dump.h"

namespace spanfold::proc {
namespace {

using test::dump_header;
using test::dump_load;
using test::dump_move;
using test::dump_record;

constexpr std::uint32_t kPid = 42;

// False where the reader gives up.
bool read_all(JitDump& dump, std::string_view bytes, JitTable& table, std::size_t piece_bytes = 1UL << 20) {
  std::uint64_t next = 0;
  while (next < bytes.size()) {
    const auto taken = dump.take(bytes.substr(next, piece_bytes), static_cast<std::uint32_t>(next), table);
    if (!taken) return false;
    if (*taken == 0) break;
    next += *taken;
  }
  table.settle(1'000'000);
  return true;
}

std::string name_at(const JitDump& dump, const JitTable& table, std::string_view bytes, std::uint64_t address) {
  const JitCode* code = table.find(address);
  return code == nullptr ? "" : std::string(dump.name(bytes.substr(dump.named_at(*code)), *code));
}

}  // namespace

TEST_CASE("jitdump: loads, and records that do not count") {
  const std::string bytes = dump_header(kPid) + dump_record(4, std::string(80, 'u')) +
                            dump_load(0x1000, 0x100, "first") + dump_record(2, std::string(33, 'd')) +
                            dump_load(0x1080, 0x100, "second") + dump_record(3, "") + dump_load(0x5000, 0, "nothing") +
                            dump_load(0x6000, 10, "");
  for (const std::size_t piece : {std::size_t{1} << 20, std::size_t{64}, std::size_t{100}, std::size_t{333}}) {
    JitDump dump(kPid);
    JitTable table;
    REQUIRE(read_all(dump, bytes, table, piece));
    const auto name = [&](std::uint64_t address) { return name_at(dump, table, bytes, address); };
    CHECK(name(0x1000) == "first");
    CHECK(name(0x107f) == "first");
    CHECK(name(0x1080) == "second");
    CHECK(name(0x117f) == "second");
    CHECK(table.find(0x1180) == nullptr);
    CHECK(table.find(0x5000) == nullptr);
    CHECK(name(0x6000).empty());
  }
}

TEST_CASE("jitdump: moved code keeps its name at its new place") {
  const std::string bytes = dump_header(kPid) + dump_load(0x1000, 0x100, "first") + dump_load(0x2000, 0x100, "second") +
                            dump_move(0x1000, 0x2040, 0x100) + dump_move(0x2040, 0x9000, 0x100) +
                            dump_move(0x7777, 0x9080, 0x10);
  JitDump dump(kPid);
  JitTable table;
  REQUIRE(read_all(dump, bytes, table));
  const auto name = [&](std::uint64_t address) { return name_at(dump, table, bytes, address); };
  CHECK(name(0x2000) == "second");
  CHECK(name(0x2040) == "first");
  CHECK(name(0x9000) == "first");
  CHECK(table.find(0x9080) != nullptr);
  CHECK(name(0x9080).empty());  // nobody knows what was moved there
  CHECK(name(0x9090) == "first");
}

TEST_CASE("jitdump: of another process, another version, another byte order, or no log at all") {
  const auto accepts = [](const std::string& bytes) {
    JitDump dump(kPid);
    JitTable table;
    return read_all(dump, bytes + dump_load(0x1000, 0x100, "first"), table);
  };
  const std::string header = dump_header(kPid);
  CHECK(accepts(header));
  CHECK(!accepts(dump_header(kPid + 1)));
  for (const std::size_t at : {0, 4, 8}) {
    std::string other = header;
    other[at] = static_cast<char>(other[at] ^ 0x11);
    CHECK(!accepts(other));
  }
  CHECK(!accepts(header + std::string(64, '\0')));  // a record without a size
  CHECK(!accepts("1000 10 a perf map, this one, with many words\n"));
}

TEST_CASE("jitdump: what is not complete is taken when it is") {
  const std::string bytes = dump_header(kPid) + dump_load(0x1000, 0x100, "first") + dump_load(0x2000, 0x100, "second");
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    JitDump dump(kPid);
    JitTable table;
    std::uint64_t next = 0;
    for (const std::size_t until : {cut, bytes.size()}) {
      while (next < until) {
        const std::string_view piece = std::string_view(bytes).substr(next, until - next);
        const auto taken = dump.take(piece, static_cast<std::uint32_t>(next), table);
        REQUIRE(taken);
        if (*taken == 0) break;
        next += *taken;
      }
    }
    table.settle(100);
    CHECK(name_at(dump, table, bytes, 0x1000) == "first");
    CHECK(name_at(dump, table, bytes, 0x2000) == "second");
  }
}

TEST_CASE("jitdump: half a million moves of what is nowhere cost no more than the bytes") {
  std::string bytes = dump_header(kPid);
  const std::string move = dump_move(0x10, 0x5000, 8);
  for (int i = 0; i < 500'000; ++i) bytes += move;
  JitDump dump(kPid);
  JitTable table;
  const auto begin = std::chrono::steady_clock::now();
  read_all(dump, bytes, table, 64UL * 1024);
  // What looks each of them up takes minutes.
  CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < 5);
  CHECK(table.size() == 1);
}

TEST_CASE("jitdump: random bytes never crash") {
  std::mt19937 random(8);
  std::string seed = dump_header(kPid);
  for (std::uint64_t i = 0; i < 10; ++i) {
    seed += dump_load(0x1000 * i, 0x500, "name") + dump_move(0x1000 * i, 0x800 * i, 0x500);
  }
  for (int round = 0; round < 5'000; ++round) {
    std::string bytes = seed;
    for (int i = 0; i < 12; ++i) bytes[40 + random() % (bytes.size() - 40)] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    JitDump dump(kPid);
    JitTable table;
    read_all(dump, bytes, table, 64 + random() % 1000);
    table.settle(1000);
    for (const JitCode& code : table.ranges()) {
      const std::uint32_t at = dump.named_at(code);
      if (at < bytes.size()) (void)dump.name(std::string_view(bytes).substr(at), code);
    }
  }
}

}  // namespace spanfold::proc
