// SPDX-License-Identifier: Apache-2.0
#include "unwind/go.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "proc/elf_file.h"
#include "proc/go_table.h"
#include "unwind/table_writer.h"

namespace spanfold::unwind {
namespace {

constexpr std::int32_t kWord = 8;
constexpr std::uint64_t kMax32 = std::numeric_limits<std::uint32_t>::max();

// The frame of a function that has moved its stack pointer by `depth` bytes. Where there is any, the compiler keeps the
// caller's frame pointer at its top.
Rule rule_of(std::int64_t depth) {
  Rule rule{.cfa = Cfa::kStackPointer, .offset = static_cast<std::int32_t>(depth) + kWord, .ra_offset = -kWord};
  if (depth >= kWord) {
    rule.frame_pointer = SavedFramePointer::kAtCfa;
    rule.fp_offset = -2 * kWord;
  }
  return rule;
}

// systemstack, mcall, asmcgocall and their like call others on another stack; the frame pointer leads back.
Rule switching_rule() {
  return {.cfa = Cfa::kFramePointer,
          .frame_pointer = SavedFramePointer::kAtCfa,
          .reg = 1,
          .offset = 2 * kWord,
          .fp_offset = -2 * kWord,
          .ra_offset = -kWord};
}

// Varints out of the pc data; 0 for ever behind its end.
class Series {
 public:
  Series(proc::WindowReader& reader, std::uint64_t offset, std::uint64_t end)
      : reader_(reader), at_(offset), end_(end) {}

  std::uint64_t number() {
    constexpr int kMostBits = 35;
    std::uint64_t value = 0;
    for (int shift = 0; shift < kMostBits; shift += 7) {
      if (left_.empty()) refill();
      if (left_.empty()) return 0;
      const auto byte = static_cast<unsigned char>(left_.front());
      left_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) break;
    }
    return value;
  }

 private:
  void refill() {
    constexpr std::uint64_t kAtOnce = 64;
    if (at_ >= end_) return;
    left_ = reader_.bytes_at(at_, std::min(kAtOnce, end_ - at_));
    at_ += left_.size();
  }

  proc::WindowReader& reader_;
  std::uint64_t at_;
  std::uint64_t end_;
  std::string_view left_;
};

class Conversion {
 public:
  Conversion(const proc::GoTable& go, const proc::ByteSource& source)
      : go_(go), reader_(source), writer_(go.text_begin()) {}

  void add(const proc::GoTable::Function& function) {
    const auto at = [&](std::uint64_t address) { return static_cast<std::uint32_t>(address - go_.text_begin()); };
    if (function.begin < go_.text_begin() || function.end - go_.text_begin() > kMax32) return;
    end_ = at(function.end);
    if (function.is_top) return put(at(function.begin), {.cfa = Cfa::kBottom});
    if (function.switches) return put(at(function.begin), switching_rule());
    if (function.stack == 0) return put(at(function.begin), {});
    Series series(reader_, go_.pc_data_offset() + function.stack, go_.pc_data_offset() + go_.pc_data_bytes());
    std::uint64_t address = function.begin;
    std::int64_t depth = -1;
    while (address < function.end) {
      const std::uint64_t coded = series.number();
      if (coded == 0 && address != function.begin) break;
      depth += static_cast<std::int64_t>(coded >> 1U) ^ -static_cast<std::int64_t>(coded & 1U);
      const std::uint64_t bytes = series.number() * go_.instruction_bytes();
      const bool makes_sense = depth >= 0 && depth < std::numeric_limits<std::int32_t>::max() && bytes > 0;
      put(at(address), makes_sense ? rule_of(depth) : Rule{});
      if (!makes_sense) return;
      address += bytes;
    }
    constexpr std::uint64_t kLeastGap = 16;  // less is padding
    if (function.end >= address + kLeastGap) put(at(address), {});
  }
  Table finish() && { return std::move(writer_).finish(end_); }

 private:
  void put(std::uint32_t start, const Rule& rule) { (void)writer_.put(start, rule); }

  const proc::GoTable& go_;
  proc::WindowReader reader_;
  TableWriter writer_;
  std::uint32_t end_ = 0;
};

}  // namespace

std::optional<Table> read_go_table(const proc::ByteSource& source) {
  const auto elf = proc::ElfFile::read(source);
  if (!elf || elf->machine() != EM_X86_64) return {};
  const auto go = proc::GoTable::find(*elf, source);
  if (!go) return {};
  Conversion conversion(*go, source);
  go->each_function(source, [&](const proc::GoTable::Function& function) { conversion.add(function); });
  return std::move(conversion).finish();
}

Table laid_over(const Table& outer, const Table& inner) {
  if (outer.rows.empty() || inner.rows.empty()) return inner.rows.empty() ? outer : inner;
  const std::uint64_t base = std::min(outer.base + outer.rows.front().start, inner.base + inner.rows.front().start);
  const std::uint64_t begin = inner.base + inner.rows.front().start;
  const std::uint64_t end = inner.base + inner.rows.back().start;
  const std::uint64_t last = std::max(end, outer.base + outer.rows.back().start);
  TableWriter writer(base);
  const auto put = [&](std::uint64_t address, const Rule& rule) {
    if (address - base <= kMax32) (void)writer.put(static_cast<std::uint32_t>(address - base), rule);
  };
  const auto put_all = [&](const Table& table, std::uint64_t from, std::uint64_t to) {
    const Rule* before = nullptr;
    bool begun = false;
    for (const Row& row : table.rows) {
      const std::uint64_t address = table.base + row.start;
      if (address >= to) break;
      if (address > from && !begun && before != nullptr) put(from, *before);
      begun = begun || address > from;
      before = &table.rules[row.rule];
      if (address >= from) put(address, *before);
    }
    if (!begun && before != nullptr && from < to) put(from, *before);
  };
  put_all(outer, base, begin);
  put_all(inner, begin, end);
  put(end, {});
  put_all(outer, end, last);
  return std::move(writer).finish(static_cast<std::uint32_t>(std::min(last - base, kMax32)));
}

}  // namespace spanfold::unwind
