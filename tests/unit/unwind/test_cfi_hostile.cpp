// SPDX-License-Identifier: Apache-2.0
// Call-frame information that lies: cut, changed at random, and made to take long. Nothing may crash, or take more than
// its size allows.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>

#include "base/file.h"
#include "image.h"
#include "proc/elf_file.h"
#include "unwind/entries.h"
#include "unwind/table_writer.h"
#include "world.h"

namespace spanfold::unwind::test {
namespace {

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// What holds of every table, whatever it was made of.
void check_sane(const Table& table) {
  REQUIRE(!table.rules.empty());
  REQUIRE(table.rows.size() <= TableWriter::kMostRows);
  REQUIRE(table.rules.size() <= TableWriter::kMostRules);
  std::uint64_t unsupported = 0;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const bool is_good =
        table.rows[i].rule < table.rules.size() &&
        (i == 0 || (table.rows[i - 1].start < table.rows[i].start && table.rows[i - 1].rule != table.rows[i].rule));
    if (!is_good) FAIL("row ", i);
    if (table.rules[table.rows[i].rule].cfa == Cfa::kUnsupported) ++unsupported;
  }
  REQUIRE(table.unsupported_rows == unsupported);
  if (!table.rows.empty()) REQUIRE(table.rules[table.rows.back().rule].cfa == Cfa::kNone);
}

// Its own code's description of some kilobytes, taken where every instruction is common.
const std::string& real_frames() {
  static const std::string kBytes = [] {
    auto fd = open_read("/proc/self/exe");
    struct stat status {};
    REQUIRE(fd);
    REQUIRE(::fstat(fd->get(), &status) == 0);
    const proc::FileSource source(*std::move(fd), status);
    const auto elf = proc::ElfFile::read(source);
    REQUIRE(elf.has_value());
    const auto section = find_eh_frame(*elf, source);
    REQUIRE(section.has_value());
    return section->bytes.substr(0, 6'000);
  }();
  return kBytes;
}

// Addresses count from where they stand: the one executable segment is all around that.
ImageShape everywhere() {
  ImageShape shape;
  shape.text = 0;
  shape.text_bytes = 1ULL << 47;
  shape.frame_address = 1ULL << 31;
  return shape;
}

std::size_t rows_of(const std::string& eh_frame) {
  const auto table = table_of_image(image_of(eh_frame, everywhere()));
  if (!table) return 0;
  check_sane(*table);
  return table->rows.size();
}

void change(std::string& bytes, std::mt19937& random) {
  constexpr unsigned char kEdges[] = {0, 1, 0x0f, 0x10, 0x3f, 0x40, 0x7f, 0x80, 0xff};
  for (unsigned i = 0; i < 1 + random() % 6; ++i) {
    const std::size_t at = random() % bytes.size();
    bytes[at] = static_cast<char>(random() % 2 == 0 ? kEdges[random() % sizeof kEdges] : random());
  }
}

}  // namespace

TEST_CASE("hostile cfi: the honest bytes first, then cut at every length") {
  REQUIRE(rows_of(real_frames()) > 100);
  const std::size_t most = std::min<std::size_t>(real_frames().size(), 2'000);
  for (std::size_t length = 0; length < most; ++length) rows_of(real_frames().substr(0, length));
}

TEST_CASE("hostile cfi: a hundred thousand random changes") {
  std::mt19937 random(13);
  const double begin = cpu_seconds();
  std::size_t rows = 0;
  for (int round = 0; round < 100'000; ++round) {
    // A piece of a few entries, so that a change hits what matters; the first CIE is in it.
    std::string bytes = real_frames().substr(0, 300 + random() % 700);
    change(bytes, random);
    rows += rows_of(bytes);
  }
  MESSAGE(rows, " rows in ", cpu_seconds() - begin, " s of CPU");
  CHECK(rows > 100'000);
  CHECK(cpu_seconds() - begin < 120);
}

TEST_CASE("hostile cfi: random changes of whole files") {
  std::mt19937 random(14);
  Frames frames;
  frames.cie();
  for (std::uint64_t i = 0; i < 8; ++i) {
    frames.function(Frames::kText + i * 0x20, 0x20,
                    ops().byte(DW_CFA_advance_loc + 1).byte(DW_CFA_def_cfa_offset).uleb(16).bytes());
  }
  Frames debug(true);
  CieShape cie;
  cie.letters = "";
  debug.cie(cie);
  debug.function(Frames::kText + 0x200, 0x20, "");
  ImageShape shape;
  shape.debug_frame = debug.bytes();
  for (const bool is_packed : {false, true}) {
    shape.is_packed = is_packed;
    const std::string honest = image_of(frames.bytes(), shape);
    for (int round = 0; round < 10'000; ++round) {
      std::string bytes = honest;
      change(bytes, random);
      if (const auto table = table_of_image(std::move(bytes))) check_sane(*table);
    }
    for (std::size_t length = 0; length < honest.size(); ++length) {
      if (const auto table = table_of_image(honest.substr(0, length))) check_sane(*table);
    }
  }
}

TEST_CASE("hostile cfi: lengths and pointers that lead astray") {
  Frames good;
  const std::size_t cie = good.cie();
  good.function(Frames::kText, 0x10, "");
  const std::string honest = good.bytes();
  const std::size_t function_at = honest.size() - 24;
  (void)cie;
  // Behind an honest function: a length beyond the end, a wide one that wraps around, one of nothing.
  for (const Writer& tail : {ops().fixed(0xfffffff0, 4), ops().fixed(0xffffffff, 4).fixed(~0ULL - 8, 8),
                             ops().fixed(0xffffffff, 4), ops().fixed(3, 4).text("abc"), ops().fixed(1, 2)}) {
    CHECK(rows_of(honest + tail.bytes()) == rows_of(honest));
  }
  // A pointer to itself, to another function, into the middle of the CIE, before the section.
  for (const std::uint64_t pointer : {std::uint64_t{4}, std::uint64_t{0}, std::uint64_t{9}, std::uint64_t{1} << 31}) {
    std::string bytes = honest + honest.substr(function_at);
    bytes.replace(bytes.size() - 24 + 4, 4, Writer().fixed(pointer, 4).bytes());
    const auto table = table_of_image(image_of(bytes));
    REQUIRE(table.has_value());
    check_sane(*table);
  }
}

TEST_CASE("hostile cfi: what takes long elsewhere takes time by its size") {
  const auto seconds_of = [](const std::string& bytes) {
    const std::string image = image_of(bytes, everywhere());
    const double begin = cpu_seconds();
    const auto table = table_of_image(image);
    const double spent = cpu_seconds() - begin;
    if (table) check_sane(*table);
    return spent;
  };
  // 4 MiB of each: no second may pass, but there are sanitizers.
  constexpr double kSoonSeconds = 8;
  constexpr std::size_t kBytes = 4 << 20;
  CieShape plain;
  plain.encoding = DW_EH_PE_udata4;
  // A CIE of 2 MiB, and functions that begin with all of it.
  CieShape heavy = plain;
  for (std::size_t i = 0; i < kBytes / 4; ++i)
    heavy.instructions += Writer().byte(DW_CFA_restore + 6).byte(DW_CFA_nop).bytes();
  Frames shared;
  shared.cie(heavy);
  for (std::uint64_t i = 0; i < kBytes / 40; ++i) shared.function(0x1000 + i, 1, "");
  CHECK(seconds_of(shared.bytes()) < kSoonSeconds);
  // Functions that all begin at one address, and such that all lie in one another.
  Frames same;
  Frames nested;
  same.cie(plain);
  nested.cie(plain);
  for (std::uint64_t i = 0; i < kBytes / 20; ++i) {
    same.function(0x1000, 0x1000, "");
    nested.function(0x1000 + i, 0x7000'0000 - i,
                    Writer().byte(DW_CFA_advance_loc + 1).byte(DW_CFA_def_cfa_offset).uleb(i).bytes());
  }
  CHECK(seconds_of(same.bytes()) < kSoonSeconds);
  CHECK(seconds_of(nested.bytes()) < kSoonSeconds);
  // A row a byte, each with a rule of its own.
  std::string rows;
  for (std::uint64_t i = 0; i < kBytes / 5; ++i)
    rows += Writer().byte(DW_CFA_advance_loc + 1).byte(DW_CFA_def_cfa_offset).uleb(i).bytes();
  Frames many;
  many.cie(plain);
  many.function(0x1000, 0x7000'0000, rows);
  CHECK(seconds_of(many.bytes()) < kSoonSeconds);
  // States upon states, expressions that go nowhere.
  Frames deep;
  deep.cie(plain);
  deep.function(0x1000, 0x1000, std::string(kBytes, DW_CFA_remember_state));
  const std::string expression(kBytes / 2, static_cast<char>(DW_OP_nop));
  deep.function(0x2000, 0x1000, Writer().byte(DW_CFA_def_cfa_expression).block("\x77\x08" + expression).bytes());
  CHECK(seconds_of(deep.bytes()) < kSoonSeconds);
  // As many CIEs as there is room for, and more.
  Frames cies;
  for (std::size_t i = 0; i < Entries::kMostCies + 10; ++i) cies.cie(plain);
  cies.function(0x1000, 0x10, "");
  const auto table = table_of_image(image_of(cies.bytes(), everywhere()));
  REQUIRE(table.has_value());
  CHECK(table->left_out == 1);
}

TEST_CASE("hostile cfi: a file that ends earlier than it says, and one that claims more than there is memory") {
  Frames frames;
  frames.cie();
  frames.function(Frames::kText, 0x10, "");
  std::string image = image_of(frames.bytes());
  auto* header = reinterpret_cast<Elf64_Ehdr*>(image.data());
  auto* sections = reinterpret_cast<Elf64_Shdr*>(image.data() + header->e_shoff);
  for (unsigned i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_addr == Frames::kAddress) sections[i].sh_size = 1ULL << 60;
  }
  const auto table = table_of_image(image);
  REQUIRE(table.has_value());
  check_sane(*table);
  CHECK(rule_at(*table, Frames::kText).cfa == Cfa::kStackPointer);
}

}  // namespace spanfold::unwind::test
