// SPDX-License-Identifier: Apache-2.0
// /proc/PID/maps: every shape of line, in pieces of every size.
#include <doctest/doctest.h>
#include <sys/sysmacros.h>

#include <random>
#include <string>

#include "base/file.h"
#include "proc/maps.h"

namespace spanfold::proc {
namespace {

std::vector<MapRange> parse(std::string_view text, std::size_t piece_bytes = 1000) {
  MapsParser parser;
  for (std::size_t at = 0; at < text.size(); at += piece_bytes) parser.feed(text.substr(at, piece_bytes));
  return parser.finish();
}

constexpr std::string_view kText =
    "55d872356000-55d872358000 r--p 00000000 fe:00 247026                     /usr/bin/cat\n"
    "55d872358000-55d87235d000 r-xp 00002000 fe:00 247026                     /usr/bin/cat\n"
    "55d89e793000-55d89e7b4000 rw-p 00000000 00:00 0                          [heap]\n"
    "7f0000000000-7f0000001000 r-xp 00000000 00:00 0 \n"
    "7f0000001000-7f0000002000 rwxs 00003000 00:01 1037                       /memfd:jit cache (deleted)\n"
    "7f0000002000-7f0000003000 r-xp 00001000 103:02 9                         /opt/two  spaces/a\\012b (deleted)\n"
    "7f0000003000-7f0000004000 r-xp 00000000 00:00 0                          [anon:v8 code]\n"
    "7f0000004000-7f0000005000 r-xs 00000000 00:05 77                         //anon\n"
    "7ffdb25e7000-7ffdb25e9000 r-xp 00000000 00:00 0                          [vdso]\n"
    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

}  // namespace

TEST_CASE("maps: executable ranges with device, inode, offset and name") {
  const auto ranges = parse(kText);
  REQUIRE(ranges.size() == 8);
  CHECK(ranges[0].start == 0x55d872358000);
  CHECK(ranges[0].end == 0x55d87235d000);
  CHECK(ranges[0].file_offset == 0x2000);
  CHECK(ranges[0].device == makedev(0xfe, 0));
  CHECK(ranges[0].inode == 247026);
  CHECK(ranges[0].name == "/usr/bin/cat");
  CHECK(ranges[1].name.empty());
  CHECK(!ranges[1].has_file());
  CHECK(ranges[2].name == "/memfd:jit cache (deleted)");
  CHECK(ranges[3].name == "/opt/two  spaces/a\\012b (deleted)");
  CHECK(ranges[3].device == makedev(0x103, 2));
  CHECK(ranges[4].name == "[anon:v8 code]");
  CHECK(ranges[5].has_file());
  CHECK(ranges[6].is_vdso());
  CHECK(ranges[7].end == 0xffffffffff601000);
}

TEST_CASE("maps: memory, and the mark of a JIT compiler") {
  const auto range = [](std::uint64_t inode, const char* name) { return MapRange{.inode = inode, .name = name}; };
  for (const char* name : {"", "[heap]", "[anon:v8]"}) CHECK(range(0, name).is_memory());
  for (const char* name : {"[vdso]", "[vsyscall]", "[uprobes]", "[stack]"}) CHECK(!range(0, name).is_memory());
  for (const char* name :
       {"/memfd:doublemapper (deleted)", "/dev/zero (deleted)", "/SYSV00000000 (deleted)", "//anon"}) {
    CHECK(range(5, name).is_memory());
  }
  CHECK(!range(5, "/tmp/memfd:x").is_memory());
  CHECK(range(5, "/tmp/jit-17.dump").is_jit_dump());
  CHECK(range(5, "/tmp/jit-17.dump (deleted)").is_jit_dump());
  CHECK(!range(5, "/tmp/jit-17.dump.bak").is_jit_dump());
  CHECK(!range(5, "/jit-1.dump/a").is_jit_dump());
}

TEST_CASE("maps: pieces of any size give the same") {
  const auto whole = parse(kText);
  for (std::size_t bytes = 1; bytes < 200; ++bytes) {
    const auto pieces = parse(kText, bytes);
    REQUIRE(pieces.size() == whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      CHECK(pieces[i].start == whole[i].start);
      CHECK(pieces[i].name == whole[i].name);
    }
  }
}

TEST_CASE("maps: lines of another form are skipped, and so are lines without end") {
  CHECK(!parse_map_line(""));
  CHECK(!parse_map_line("55d8-55d7 r-xp 0 0:0 0"));
  CHECK(!parse_map_line("55d8-55d8 r-xp 0 0:0 0"));
  CHECK(!parse_map_line("1-2 r-xp"));
  CHECK(!parse_map_line("1-2 r-xp 0 00:00"));
  CHECK(!parse_map_line("11111111111111111-2 r-xp 0 00:00 0"));
  CHECK(parse_map_line("1-2 r-xp 0 00:00 0"));
  const std::string endless = "1000-2000 r-xp 0 00:00 5 /" + std::string(100'000, 'x') + "\n3000-4000 r-xp 0 00:00 0\n";
  const auto ranges = parse(endless);
  REQUIRE(ranges.size() == 1);
  CHECK(ranges[0].start == 0x3000);
  CHECK(parse(endless.substr(0, 50'000)).empty());
}

TEST_CASE("maps: of ranges that overlap the later line counts") {
  const auto ranges = parse("1000-3000 r-xp 0 00:00 0\n2000-4000 r-xp 0 00:01 5 /a\n4000-5000 r-xp 0 00:00 0\n");
  REQUIRE(ranges.size() == 2);
  CHECK(ranges[0].name == "/a");
  CHECK(ranges[1].start == 0x4000);
}

TEST_CASE("maps: random bytes never crash, results are ordered") {
  std::mt19937 random(1);
  constexpr std::string_view kAlphabet = "0123456789abcdef-xrwp :/\n\n[]() \\\0\xff";
  for (int round = 0; round < 20'000; ++round) {
    std::string text = round % 2 == 0 ? std::string(kText) : std::string();
    if (text.empty()) {
      for (int i = 0; i < 200; ++i) text += kAlphabet[random() % kAlphabet.size()];
    }
    for (int i = 0; i < 8 && !text.empty(); ++i) text[random() % text.size()] = kAlphabet[random() % kAlphabet.size()];
    std::uint64_t end = 0;
    for (const MapRange& range : parse(text, 1 + random() % 100)) {
      REQUIRE(range.start >= end);
      REQUIRE(range.end > range.start);
      end = range.end;
    }
  }
}

TEST_CASE("maps: the own process") {
  const auto text = read_file("/proc/self/maps", 1 << 20);
  REQUIRE(text);
  bool found = false;
  const auto here = reinterpret_cast<std::uint64_t>(&parse_map_line);
  for (const MapRange& range : parse(*text)) found = found || (range.start <= here && here < range.end);
  CHECK(found);
}

}  // namespace spanfold::proc
