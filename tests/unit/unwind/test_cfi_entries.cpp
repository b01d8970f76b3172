// SPDX-License-Identifier: Apache-2.0
// Entries, encodings, sections and files that call-frame information comes in, and which entry counts where.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "image.h"
#include "unwind/table_writer.h"
#include "world.h"

namespace spanfold {

// Where the type lives: doctest looks there, for this name.
// NOLINTNEXTLINE(readability-identifier-naming)
static doctest::String toString(const UnwindRule& rule) { return unwind::test::text_of(rule).c_str(); }

}  // namespace spanfold

namespace spanfold::unwind {
namespace test {
namespace {

constexpr std::uint64_t kText = Frames::kText;

Rule by_stack(std::int32_t offset) { return {.cfa = Cfa::kStackPointer, .offset = offset, .ra_offset = -8}; }
std::string moved(std::uint64_t offset) { return Writer().byte(DW_CFA_def_cfa_offset).uleb(offset).bytes(); }

Table table_of_frames(const Frames& frames, ImageShape shape = {}) {
  if (frames.is_debug()) shape.debug_frame = frames.bytes();
  const auto table = table_of_image(image_of(frames.is_debug() ? std::string_view() : frames.bytes(), shape));
  REQUIRE(table.has_value());
  REQUIRE(std::is_sorted(table->rows.begin(), table->rows.end()));
  return *table;
}

// The stack offset at each of some addresses; 0: no rule there.
std::vector<int> offsets_at(const Table& table, const std::vector<std::uint64_t>& addresses) {
  std::vector<int> offsets;
  offsets.reserve(addresses.size());
  for (const std::uint64_t address : addresses) offsets.push_back(rule_at(table, address).offset);
  return offsets;
}

void check_two(const Frames& frames, const ImageShape& shape = {}) {
  const Table table = table_of_frames(frames, shape);
  CHECK(offsets_at(table, {kText, kText + 0x7f, kText + 0x80, kText + 0xff, kText + 0x100}) ==
        std::vector<int>{16, 16, 24, 24, 0});
  CHECK(table.left_out == 0);
}

Frames& with_two(Frames& frames) {
  return frames.function(kText, 0x80, moved(16)).function(kText + 0x80, 0x80, moved(24));
}

}  // namespace

TEST_CASE("cfi: encodings of addresses") {
  constexpr int kFormats[] = {
      DW_EH_PE_absptr,  DW_EH_PE_uleb128, DW_EH_PE_udata2, DW_EH_PE_udata4, DW_EH_PE_udata8, 0x08,
      DW_EH_PE_sleb128, DW_EH_PE_sdata2,  DW_EH_PE_sdata4, DW_EH_PE_sdata8};
  for (const int format : kFormats) {
    for (const int base : {0, static_cast<int>(DW_EH_PE_pcrel)}) {
      const bool is_short = format == DW_EH_PE_udata2 || format == DW_EH_PE_sdata2;
      const bool is_unsigned = format == DW_EH_PE_udata4;
      // The code is 256 KiB before its description.
      if (base != 0 && (is_short || is_unsigned)) continue;
      CAPTURE(format | base);
      Frames frames;
      CieShape cie;
      cie.encoding = static_cast<std::uint8_t>(format | base);
      frames.cie(cie);
      check_two(with_two(frames));
    }
  }
  // From the beginning of .text.
  for (const int base : {static_cast<int>(DW_EH_PE_textrel)}) {
    Frames frames;
    CieShape cie;
    cie.encoding = static_cast<std::uint8_t>(DW_EH_PE_sdata4 | base);
    frames.cie(cie);
    frames.function(0, 0x80, moved(16)).function(0x80, 0x80, moved(24));
    check_two(frames);
  }
  // Nobody knows: memory of the program, a global offset table that is not there, the function itself.
  for (const int encoding : {DW_EH_PE_indirect | DW_EH_PE_sdata8, DW_EH_PE_datarel | DW_EH_PE_sdata8,
                             DW_EH_PE_funcrel | DW_EH_PE_sdata8, 0x0d, static_cast<int>(DW_EH_PE_omit)}) {
    CAPTURE(encoding);
    Frames frames;
    CieShape cie;
    cie.encoding = static_cast<std::uint8_t>(encoding);
    frames.cie(cie);
    const Table table = table_of_frames(with_two(frames));
    CHECK(table.left_out == 2);
    CHECK(offsets_at(table, {kText, kText + 0x80}) == std::vector<int>{0, 0});
  }
}

TEST_CASE("cfi: augmentations") {
  // A personality routine, of every size and aligned; where the language's data is; a signal frame is tested elsewhere.
  const auto personality = [](int encoding, const std::string& pointer) {
    return static_cast<char>(encoding) + pointer;
  };
  const std::string language(1, DW_EH_PE_pcrel | DW_EH_PE_sdata4);
  struct Shape {
    std::string letters;
    std::string data;
  };
  for (const Shape& each : {Shape{"zPLR", personality(0x9b, std::string(4, 'p')) + language},
                            Shape{"zPLR", personality(0x00, std::string(8, 'p')) + language},
                            Shape{"zPR", personality(0x02, "pp")}, Shape{"zPR", personality(0x01, "\xff\xff\x01")},
                            Shape{"zPR", personality(0xff, "")}, Shape{"zLR", language}, Shape{"zR", ""},
                            // Behind an entry's first 17 bytes, seven more make it aligned: it stands 3 bytes further.
                            Shape{"zPR", personality(0x50, std::string(7, 'a') + std::string(8, 'p'))}}) {
    CAPTURE(each.letters);
    CAPTURE(each.data.size());
    Frames frames;
    CieShape cie;
    cie.letters = each.letters;
    cie.more_data = each.data;
    if (each.data.size() > 1 && static_cast<std::uint8_t>(each.data[0]) == 0x50) {
      // length, id, version, "zPR\0", two alignments, a register, the length of the data, the encoding
      constexpr std::uint64_t kBefore = 4 + 4 + 1 + 4 + 1 + 1 + 1 + 1 + 1;
      const std::uint64_t pad = (8 - (Frames::kAddress + kBefore) % 8) % 8;
      cie.more_data = personality(0x50, std::string(pad, 'a') + std::string(8, 'p'));
    }
    frames.cie(cie);
    check_two(with_two(frames));
  }
  // What nobody knows: the functions are left out, those of other entries are not.
  for (const char* letters : {"zQR", "eh", "Q", "zRB"}) {
    CAPTURE(letters);
    Frames frames;
    CieShape cie;
    cie.letters = letters;
    frames.cie(cie);
    frames.function(kText, 0x80, moved(16));
    frames.cie();
    frames.function(kText + 0x80, 0x80, moved(24));
    const Table table = table_of_frames(frames);
    CHECK(table.left_out == 1);
    CHECK(offsets_at(table, {kText, kText + 0x80}) == std::vector<int>{0, 24});
  }
}

TEST_CASE("cfi: versions, widths, and both sections") {
  for (const std::uint64_t version : {1, 3, 4}) {
    for (const bool is_wide : {false, true}) {
      for (const bool is_debug : {false, true}) {
        CAPTURE(version);
        CAPTURE(is_wide);
        CAPTURE(is_debug);
        Frames frames(is_debug, is_wide);
        CieShape cie;
        cie.version = version;
        if (is_debug) cie.letters = "";
        frames.cie(cie);
        check_two(with_two(frames));
      }
    }
  }
  for (const std::uint64_t version : {0, 2, 5}) {
    Frames frames;
    CieShape cie;
    cie.version = version;
    frames.cie(cie);
    CHECK(table_of_frames(with_two(frames)).left_out == 2);
  }
}

TEST_CASE("cfi: .debug_frame may name what comes later, and may be packed") {
  Frames later(true);
  CieShape cie;
  cie.letters = "";
  Frames sizes(true);
  sizes.cie(cie);
  const std::size_t one = [&] {
    Frames frames(true);
    frames.cie(cie);
    const std::size_t before = frames.bytes().size();
    frames.function(kText, 0x80, moved(16));
    return frames.bytes().size() - before;
  }();
  // Both functions come before their CIE: the builder needs one first, which nobody uses.
  later.cie(cie);
  const std::size_t at = later.bytes().size() + 2 * one;
  later.function(kText, 0x80, moved(16), at).function(kText + 0x80, 0x80, moved(24), at);
  CHECK(later.cie(cie) == at);
  check_two(later);
  ImageShape packed;
  packed.is_packed = true;
  check_two(later, packed);
}

TEST_CASE("cfi: a packed section that lies gives nothing") {
  Frames frames(true);
  CieShape cie;
  cie.letters = "";
  frames.cie(cie);
  ImageShape shape;
  shape.is_packed = true;
  shape.debug_frame = with_two(frames).bytes();
  const std::string good = image_of("", shape);
  CHECK(table_of_image(good).has_value());
  const std::size_t header = good.find(std::string("\x01\0\0\0\0\0\0\0", 8) + static_cast<char>(frames.bytes().size()));
  REQUIRE(header != std::string::npos);
  for (const std::uint64_t claim : {std::uint64_t{1} << 40, std::uint64_t{1} << 25, std::uint64_t{1000}}) {
    std::string bad = good;
    bad.replace(header + 8, 8, Writer().fixed(claim, 8).bytes());
    CHECK(!table_of_image(bad).has_value());
  }
  std::string damaged = good;
  damaged[header + sizeof(Elf64_Chdr)] ^= 0x0f;
  CHECK(!table_of_image(damaged).has_value());
  std::string other = good;
  other[header] = 2;  // zstd
  CHECK(!table_of_image(other).has_value());
}

TEST_CASE("cfi: a file without sections is found by its frame header") {
  Frames frames;
  frames.cie();
  with_two(frames).raw(std::string(4, '\0')).raw("what follows is another thing");
  ImageShape shape;
  shape.has_sections = false;
  check_two(frames, shape);
  Frames ended;
  ended.cie();
  ended.function(kText, 0x80, moved(16)).raw(std::string(4, '\0')).function(kText + 0x80, 0x80, moved(24));
  CHECK(offsets_at(table_of_frames(ended, shape), {kText, kText + 0x80}) == std::vector<int>{16, 0});
  shape.has_frame_header = false;
  CHECK(!table_of_image(image_of(frames.bytes(), shape)).has_value());
  // With sections, a terminator in the middle ends nothing.
  Frames middle;
  middle.cie();
  middle.function(kText, 0x80, moved(16)).raw(std::string(4, '\0')).function(kText + 0x80, 0x80, moved(24));
  check_two(middle);
}

TEST_CASE("cfi: gaps") {
  const auto after_gap = [](std::uint64_t gap, const ImageShape& shape = {}) {
    Frames frames;
    frames.cie();
    frames.function(kText, 0x20, moved(16)).function(kText + 0x20 + gap, 0x20, moved(24));
    return table_of_frames(frames, shape);
  };
  CHECK(after_gap(0).rows == std::vector<Row>{{0, 1}, {0x20, 2}, {0x40, 0}});
  CHECK(after_gap(15).rows == std::vector<Row>{{0, 1}, {0x2f, 2}, {0x4f, 0}});
  CHECK(after_gap(16).rows == std::vector<Row>{{0, 1}, {0x20, 0}, {0x30, 2}, {0x50, 0}});
  // A section that begins there is no padding, one that begins with the next function says nothing against it.
  ImageShape two;
  two.code_sections = {{kText, 0x20}, {kText + 0x20, 8}, {kText + 0x28, 0x100}};
  CHECK(after_gap(8, two).rows == std::vector<Row>{{0, 1}, {0x20, 0}, {0x28, 2}, {0x48, 0}});
  two.code_sections = {{kText, 0x20}, {kText + 0x28, 0x100}};
  CHECK(after_gap(8, two).rows == std::vector<Row>{{0, 1}, {0x28, 2}, {0x48, 0}});
  // Where a function may be missing, nothing is taken for padding.
  Frames frames;
  CieShape unknown;
  unknown.letters = "Q";
  const std::size_t bad = frames.cie(unknown);
  frames.cie();
  frames.function(kText, 0x20, moved(16)).function(kText + 0x20, 8, "", bad).function(kText + 0x28, 0x20, moved(24));
  CHECK(table_of_frames(frames).rows == std::vector<Row>{{0, 1}, {0x20, 0}, {0x28, 2}, {0x48, 0}});
}

TEST_CASE("cfi: entries that overlap, repeat and come in any order") {
  Frames frames;
  frames.cie();
  frames.function(kText + 0x80, 0x80, moved(24)).function(kText, 0x80, moved(16));
  check_two(frames);
  // The later begin counts from there on, and the first of equals; nothing comes back behind it.
  Frames nested;
  nested.cie();
  nested.function(kText, 0x100, moved(16))
      .function(kText + 0x40, 0x20, moved(32))
      .function(kText + 0x40, 0x80, moved(48));
  CHECK(offsets_at(table_of_frames(nested), {kText, kText + 0x3f, kText + 0x40, kText + 0x5f, kText + 0x60,
                                             kText + 0xff}) == std::vector<int>{16, 16, 32, 32, 0, 0});
  // .debug_frame fills what .eh_frame leaves, and no more.
  Frames debug(true);
  CieShape cie;
  cie.letters = "";
  debug.cie(cie);
  debug.function(kText, 0x10, moved(100))
      .function(kText + 0x18, 0x8, moved(108))
      .function(kText + 0x40, 0x80, moved(116));
  // Also what lies behind an entry that ended within another.
  ImageShape hidden;
  hidden.debug_frame = debug.bytes();
  Frames wide;
  wide.cie();
  wide.function(kText, 0x100, moved(16)).function(kText + 0x20, 0x10, moved(32));
  CHECK(offsets_at(table_of_frames(wide, hidden), {kText + 0x18, kText + 0x20, kText + 0x40}) ==
        std::vector<int>{16, 32, 0});
  Frames own;
  own.cie();
  own.function(kText, 0x20, moved(16)).function(kText + 0x80, 0x20, moved(24));
  ImageShape both;
  both.debug_frame = debug.bytes();
  const std::vector<std::uint64_t> places{kText,        kText + 0x18, kText + 0x1f, kText + 0x40,
                                          kText + 0x7f, kText + 0x80, kText + 0xa0};
  CHECK(offsets_at(table_of_frames(own, both), places) == std::vector<int>{16, 16, 16, 116, 116, 24, 0});
}

TEST_CASE("cfi: a separate debug file counts where its code lies where the file's does") {
  Frames debug(true);
  CieShape cie;
  cie.letters = "";
  debug.cie(cie);
  ImageShape shape;
  shape.debug_frame = with_two(debug).bytes();
  shape.is_packed = true;
  const proc::MemorySource bare(image_of(""));
  CHECK(!read_table(bare).has_value());
  const proc::MemorySource split(image_of("", shape));
  const auto table = read_table(bare, &split);
  REQUIRE(table.has_value());
  CHECK(offsets_at(*table, {kText, kText + 0x80, kText + 0x100}) == std::vector<int>{16, 24, 0});
  ImageShape elsewhere = shape;
  elsewhere.text = 0x2000;
  const proc::MemorySource other(image_of("", elsewhere));
  CHECK(!read_table(bare, &other).has_value());
}

TEST_CASE("cfi: what is not in an executable segment, or too far from the first, has no rows") {
  Frames frames;
  CieShape cie;
  cie.encoding = DW_EH_PE_udata8;
  frames.cie(cie);
  constexpr std::uint64_t kFar = kText + (1ULL << 32);
  frames.function(0, 0x100, moved(8)).function(kText - 1, 0x100, moved(8)).function(kText, 0, moved(8));
  frames.function(kFar - 0x20, 0x100, moved(16)).function(kFar, 0x100, moved(24)).function(~0ULL - 8, 0x100, moved(8));
  ImageShape shape;
  shape.text_bytes = 1ULL << 33;
  const Table table = table_of_frames(frames, shape);
  CHECK(table.rows == std::vector<Row>{{0xffffffe0, 1}, {0xffffffff, 0}});
  // Cut where the segment ends.
  Frames last;
  last.cie();
  last.function(kText + 0xfff0, 0x100, moved(16));
  CHECK(table_of_frames(last).rows == std::vector<Row>{{0xfff0, 1}, {0x10000, 0}});
  // Other machines, and files of 32 bits, are not for us.
  shape.machine = EM_RISCV;
  CHECK(!table_of_image(image_of(frames.bytes(), shape)).has_value());
}

TEST_CASE("cfi: a writer within bounds") {
  // More rules than there is room for: what is known stays, the rest is unsupported.
  TableWriter many(0);
  for (std::uint32_t i = 0; i < 70'000; ++i) REQUIRE(many.put(i, by_stack(static_cast<std::int32_t>(i))));
  const Table rules = std::move(many).finish(70'000);
  CHECK(rules.rules.size() == TableWriter::kMostRules);
  CHECK(rule_at(rules, 60'000) == by_stack(60'000));
  CHECK(rule_at(rules, 69'999).cfa == Cfa::kUnsupported);
  CHECK(rules.unsupported_rows == 1);
  TableWriter long_one(0);
  std::uint32_t rows = 0;
  while (long_one.put(rows, by_stack(8 + 8 * static_cast<std::int32_t>(rows % 2)))) ++rows;
  CHECK(rows == TableWriter::kMostRows - 1);
  const Table full = std::move(long_one).finish(rows);
  CHECK(full.rows.size() == TableWriter::kMostRows);
  CHECK(rule_at(full, rows - 1).cfa == Cfa::kStackPointer);
  CHECK(rule_at(full, rows).cfa == Cfa::kNone);
}

}  // namespace test
}  // namespace spanfold::unwind
