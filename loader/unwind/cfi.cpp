// SPDX-License-Identifier: Apache-2.0
#include "unwind/cfi.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "proc/elf_file.h"
#include "unwind/entries.h"
#include "unwind/frame_section.h"
#include "unwind/interpreter.h"
#include "unwind/machine.h"
#include "unwind/table_writer.h"

namespace spanfold::unwind {
namespace {

constexpr std::uint32_t kLeastGap = 16;  // bytes; compilers align functions to that, by less than that

// Where sections of code begin, bytes after `base`, sorted.
std::vector<std::uint32_t> code_sections(const proc::ElfFile& elf, std::uint64_t base) {
  std::vector<std::uint32_t> begins;
  for (const Elf64_Shdr& section : elf.sections()) {
    const std::uint64_t offset = section.sh_addr - base;
    const bool is_code = (section.sh_flags & SHF_EXECINSTR) != 0 && section.sh_size > 0;
    if (is_code && offset <= 0xffffffff) begins.push_back(static_cast<std::uint32_t>(offset));
  }
  std::sort(begins.begin(), begins.end());
  return begins;
}

// Executes the sorted entries and writes what comes of them.
class Conversion {
 public:
  Conversion(const Machine& machine, const Entries& entries, std::uint64_t base, std::vector<std::uint32_t> sections)
      : machine_(machine),
        interpreter_(machine),
        entries_(entries),
        base_(base),
        sections_(std::move(sections)),
        least_gap_(entries.left_out() == 0 ? kLeastGap : 1),
        writer_(base) {}

  [[nodiscard]] Table run() && {
    const std::vector<Described>& functions = entries_.functions();
    std::size_t at = 0;
    for (; at < functions.size() && !is_full_; ++at) {
      const Described& function = functions[at];
      const bool is_first = at == 0 || functions[at - 1].begin != function.begin;
      if (!is_first || (function.section > 0 && function.begin < first_end_)) continue;
      if (function.section == 0) first_end_ = std::max(first_end_, function.end);
      add(function, std::min(function.end, next_begin(at)));
    }
    const std::uint64_t left = functions.size() - at + (is_full_ ? 1 : 0);
    Table table = std::move(writer_).finish(end_);
    table.left_out = entries_.left_out() + left;
    return table;
  }

 private:
  // Where the next one that counts begins, or where the one at `index` ends. All of these scans together are one pass:
  // what is passed over, as a repetition or as hidden by the first section, is never scanned from.
  [[nodiscard]] std::uint32_t next_begin(std::size_t index) const {
    const std::vector<Described>& functions = entries_.functions();
    const Described& function = functions[index];
    for (std::size_t next = index + 1; next < functions.size(); ++next) {
      const bool is_hidden = functions[next].section > function.section && functions[next].begin < first_end_;
      if (functions[next].begin > function.begin && !is_hidden) return functions[next].begin;
      if (functions[next].begin >= function.end) break;
    }
    return function.end;
  }

  // The gap before `begin` is of use to nobody.
  [[nodiscard]] bool is_padding(std::uint32_t begin) {
    while (section_ < sections_.size() && sections_[section_] < end_) ++section_;
    const bool is_in_one = section_ == sections_.size() || sections_[section_] >= begin;
    return begin == end_ || (begin - end_ < least_gap_ && is_in_one);
  }

  void add(const Described& function, std::uint32_t end) {
    if (!is_padding(function.begin)) put(end_, Rule{});
    const Cie& cie = entries_.cie_of(function);
    if (!cie.is_supported) {
      put(function.begin, kUnsupportedRule);
    } else {
      const FrameSection& section = entries_.section_of(function);
      const std::size_t from = function.instructions;
      interpreter_.run(
          cie, section, Cursor(section.bytes, from, from + function.instruction_bytes), base_ + function.begin,
          base_ + end, [&](std::uint64_t address, const State* state) {
            const auto start = static_cast<std::uint32_t>(address - base_);
            return put(start, state == nullptr ? kUnsupportedRule : rule_of(*state, machine_, cie.is_signal_frame));
          });
    }
    if (!is_full_) end_ = end;
  }

  bool put(std::uint32_t start, const Rule& rule) {
    if (is_full_) return false;
    is_full_ = !writer_.put(start, rule);
    if (is_full_) end_ = start;
    return !is_full_;
  }

  Machine machine_;
  Interpreter interpreter_;
  const Entries& entries_;
  std::uint64_t base_;
  std::vector<std::uint32_t> sections_;
  std::size_t section_ = 0;  // the first that does not begin before end_
  std::uint32_t least_gap_;
  TableWriter writer_;
  std::uint32_t end_ = 0;        // of what is known
  std::uint32_t first_end_ = 0;  // of what the first section knows
  bool is_full_ = false;
};

}  // namespace

std::optional<Table> read_table(const proc::ByteSource& source, const proc::ByteSource* debug) {
  const auto elf = proc::ElfFile::read(source);
  const auto machine = elf && elf->is_64_bit() ? Machine::of(elf->machine()) : std::nullopt;
  if (!machine || elf->code().empty()) return {};
  const auto lowest = std::min_element(elf->code().begin(), elf->code().end());
  const std::uint64_t base = lowest->virtual_address;
  Entries entries(*machine, elf->code(), base);
  bool has_any = false;
  const auto add = [&](std::optional<FrameSection> section) {
    if (!section) return;
    has_any = true;
    entries.add(std::move(*section));
  };
  add(find_eh_frame(*elf, source));
  add(find_debug_frame(*elf, source));
  const auto split = debug != nullptr ? proc::ElfFile::read(*debug) : std::nullopt;
  if (split && split->is_laid_out_as(*elf)) add(find_debug_frame(*split, *debug));
  if (!has_any) return {};
  entries.sort();
  return Conversion(*machine, entries, base, code_sections(*elf, base)).run();
}

}  // namespace spanfold::unwind
