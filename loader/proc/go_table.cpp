// SPDX-License-Identifier: Apache-2.0
#include "proc/go_table.h"

#include <algorithm>
#include <array>
#include <string>

namespace spanfold::proc {
namespace {

constexpr std::uint32_t kMagic116 = 0xfffffffa;
constexpr std::uint32_t kMagic118 = 0xfffffff0;
constexpr std::uint32_t kMagic120 = 0xfffffff1;
constexpr std::uint64_t kPreambleBytes = 8;  // magic, two zeros, smallest instruction, pointer
constexpr std::uint64_t kMaxSearchedBytes = 256UL << 20;
constexpr int kMaxTries = 4;                          // eight bytes right by chance are rare
constexpr std::uint64_t kMaxRelocations = 2'000'000;  // half a million in a large program
// Of pages, while functions are described: in order, so that a large program (100 MB of table) needs a tenth of it.
constexpr std::uint64_t kMaxDescriptionReads = 256UL * 1024;

struct Preamble {
  std::uint32_t magic = 0;
  std::uint16_t zeros = 0;
  std::uint8_t instruction_bytes = 0;
  std::uint8_t pointer_bytes = 0;

  [[nodiscard]] bool makes_sense() const {
    const bool known = magic == kMagic116 || magic == kMagic118 || magic == kMagic120;
    const bool instruction = instruction_bytes == 1 || instruction_bytes == 2 || instruction_bytes == 4;
    return known && zeros == 0 && instruction && (pointer_bytes == 4 || pointer_bytes == 8);
  }
};
static_assert(sizeof(Preamble) == kPreambleBytes);

// A number of 4 or 8 bytes in the host's order; 0 where fewer could be read.
std::uint64_t number_of(std::string_view bytes) {
  std::uint64_t wide = 0;
  std::uint32_t narrow = 0;
  if (bytes.size() == sizeof wide) std::memcpy(&wide, bytes.data(), sizeof wide);
  if (bytes.size() == sizeof narrow) std::memcpy(&narrow, bytes.data(), sizeof narrow);
  return wide + narrow;
}

std::uint64_t read_number(const ByteSource& source, std::uint64_t offset, std::uint64_t bytes) {
  std::array<char, sizeof(std::uint64_t)> text{};
  const std::size_t got = source.read_some(offset, std::span(text).first(bytes));
  return number_of({text.data(), got});
}

// The pointer at `address`, which lies at `offset`, as it is before anything is loaded: where linkers leave zero in its
// place, a relocation says.
std::uint64_t linked_pointer(const ElfFile& elf, const ByteSource& source, std::uint64_t address, std::uint64_t offset,
                             std::uint64_t pointer_bytes) {
  const std::uint64_t in_place = read_number(source, offset, pointer_bytes);
  if (in_place != 0 || !elf.is_64_bit()) return in_place;
  const std::uint64_t relative = elf.machine() == EM_AARCH64 ? R_AARCH64_RELATIVE : R_X86_64_RELATIVE;
  std::uint64_t value = 0;
  std::uint64_t budget = kMaxRelocations;
  for (const Elf64_Shdr& section : elf.sections()) {
    if (section.sh_type != SHT_RELA || section.sh_entsize != sizeof(Elf64_Rela)) continue;
    const std::uint64_t count = std::min(section.sh_size / sizeof(Elf64_Rela), budget);
    budget -= count;
    each_item<Elf64_Rela>(source, section.sh_offset, count, [&](const Elf64_Rela& entry) {
      const bool here = entry.r_offset == address && ELF64_R_TYPE(entry.r_info) == relative;
      if (here) value = static_cast<std::uint64_t>(entry.r_addend);
    });
  }
  return value;
}

// Where the text begins, by the runtime's description of the module (runtime.moduledata): its words 0, 20 and 22 are
// the table's header, the first function and the beginning of the text.
std::uint64_t text_by_module(const ElfFile& elf, const ByteSource& source, std::uint64_t header, std::uint64_t first,
                             std::uint64_t pointer_bytes) {
  const auto module = elf.section_named(".go.module");
  if (!module) return 0;
  const auto word = [&](std::uint64_t index) {
    const std::uint64_t at = index * pointer_bytes;
    return linked_pointer(elf, source, module->sh_addr + at, module->sh_offset + at, pointer_bytes);
  };
  constexpr std::uint64_t kFirstFunction = 20;
  constexpr std::uint64_t kText = 22;
  const std::uint64_t text = word(kText);
  return word(0) == header && word(kFirstFunction) == text + first ? text : 0;
}

bool is_code(const ElfFile& elf, std::uint64_t begin, std::uint64_t end) {
  return std::any_of(elf.code().begin(), elf.code().end(), [&](const CodeSegment& segment) {
    return begin >= segment.virtual_address && begin < end && end - segment.virtual_address <= segment.memory_bytes;
  });
}

}  // namespace

std::optional<GoTable> GoTable::parse(const ByteSource& source, std::uint64_t offset, std::uint64_t bytes) {
  Preamble preamble;
  if (!source.read_struct(offset, preamble) || !preamble.makes_sense()) return {};
  GoTable table;
  table.offset_ = offset;
  table.pointer_bytes_ = preamble.pointer_bytes;
  table.is_absolute_ = preamble.magic == kMagic116;
  table.instruction_bytes_ = preamble.instruction_bytes;
  // A description: where it begins; eight words, name and stack among them; from Go 1.20 on the first line; its kind;
  // flags (runtime._func).
  constexpr std::uint64_t kWords = 8;
  const std::uint64_t words_before_kind = preamble.magic == kMagic120 ? kWords + 1 : kWords;
  table.flag_at_ = table.field_bytes() + words_before_kind * sizeof(std::uint32_t) + 1;
  // Functions, files, [text,] then where these begin: names, units, files, pc data, functions.
  const std::size_t words = table.is_absolute_ ? 7 : 8;
  std::array<std::uint64_t, 8> header{};
  for (std::size_t i = 0; i < words; ++i) {
    header[i] = read_number(source, offset + kPreambleBytes + i * table.pointer_bytes_, table.pointer_bytes_);
  }
  table.count_ = header[0];
  table.stated_text_ = table.is_absolute_ ? 0 : header[2];
  const auto parts = std::span(header).first(words).last(5);
  if (!std::is_sorted(parts.begin(), parts.end()) || parts.front() < kPreambleBytes || parts.back() >= bytes) return {};
  table.names_ = parts[0];
  table.names_bytes_ = parts[1] - parts[0];
  table.pc_data_ = parts[3];
  table.functions_ = parts.back();
  const std::uint64_t room = (bytes - table.functions_) / (2 * table.field_bytes());
  if (table.count_ == 0 || table.count_ > ElfFile::kMaxSymbols || table.count_ > room) return {};
  return table;
}

std::optional<GoTable> GoTable::search(const ElfFile& elf, const ByteSource& source, const Elf64_Shdr& section) {
  std::optional<GoTable> found;
  std::uint64_t at = 0;  // in the section
  int tries = 0;
  const std::uint64_t bytes = std::min(section.sh_size, kMaxSearchedBytes);
  each_item<Preamble>(source, section.sh_offset, bytes / sizeof(Preamble), [&](const Preamble& preamble) {
    if (!found && preamble.makes_sense() && ++tries <= kMaxTries) {
      found = parse(source, section.sh_offset + at, section.sh_size - at);
      if (found && !found->place(elf, source, section.sh_addr + at)) found.reset();
    }
    at += sizeof(Preamble);  // the table begins on such a boundary, whoever linked it
  });
  return found;
}

bool GoTable::place(const ElfFile& elf, const ByteSource& source, std::uint64_t address) {
  const std::uint64_t entries = offset_ + functions_;
  const std::uint64_t first = read_number(source, entries, field_bytes());
  const std::uint64_t last = read_number(source, entries + count_ * 2 * field_bytes(), field_bytes());
  if (!is_absolute_) {
    text_ = stated_text_;
    const std::uint64_t text_word = kPreambleBytes + 2 * pointer_bytes_;
    if (text_ == 0) text_ = linked_pointer(elf, source, address + text_word, offset_ + text_word, pointer_bytes_);
    if (text_ == 0) text_ = text_by_module(elf, source, address, first, pointer_bytes_);
    if (text_ == 0) return false;
  }
  text_begin_ = text_ + first;
  text_end_ = text_ + last;
  return is_code(elf, text_begin_, text_end_);
}

std::optional<GoTable> GoTable::find(const ElfFile& elf, const ByteSource& source) {
  for (const char* name : {".gopclntab", ".data.rel.ro.gopclntab"}) {
    const auto section = elf.section_named(name);
    auto table = section ? parse(source, section->sh_offset, section->sh_size) : std::nullopt;
    if (table && table->place(elf, source, section->sh_addr)) return table;
  }
  if (elf.build_ids().go.empty() && !elf.section_named(".go.buildinfo")) return {};
  const auto section = elf.section_named(".data.rel.ro");
  return section ? search(elf, source, *section) : std::nullopt;
}

void GoTable::each_function(const ByteSource& source, const std::function<void(const Function&)>& take) const {
  // Each reads on and on, in its own part of the table.
  WindowReader entries(source);
  WindowReader descriptions(source);
  std::uint64_t entry = offset_ + functions_;
  std::uint64_t begin = number_of(entries.bytes_at(entry, field_bytes()));
  for (std::uint64_t i = 0; i < count_ && descriptions.reads() <= kMaxDescriptionReads; ++i) {
    // A function is described elsewhere in the table: again where it begins, then the offset of its name.
    const std::uint64_t description =
        offset_ + functions_ + number_of(entries.bytes_at(entry + field_bytes(), field_bytes()));
    entry += 2 * field_bytes();
    const std::uint64_t end = number_of(entries.bytes_at(entry, field_bytes()));
    if (end < begin || text_ + end > text_end_) return;
    const bool agrees = number_of(descriptions.bytes_at(description, field_bytes())) == begin;
    const std::uint64_t name = number_of(descriptions.bytes_at(description + field_bytes(), sizeof(std::uint32_t)));
    if (agrees && end > begin && name < names_bytes_) {
      constexpr std::uint64_t kStackAfterName = 3 * sizeof(std::uint32_t);
      constexpr std::uint64_t kTop = 1;
      constexpr std::uint64_t kSwitches = 2;
      const std::uint64_t stack_at = description + field_bytes() + kStackAfterName;
      const auto stack = static_cast<std::uint32_t>(number_of(descriptions.bytes_at(stack_at, sizeof(std::uint32_t))));
      const std::string_view byte = descriptions.bytes_at(description + flag_at_, 1);
      const auto flags = byte.empty() ? 0U : static_cast<unsigned char>(byte.front());
      take({.begin = text_ + begin,
            .end = text_ + end,
            .name = static_cast<std::uint32_t>(name),
            .stack = stack,
            .is_top = (flags & kTop) != 0,
            .switches = (flags & kSwitches) != 0});
    }
    begin = end;
  }
}

}  // namespace spanfold::proc
