// SPDX-License-Identifier: Apache-2.0
#include "proc/symbol_table.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

namespace spanfold::proc {
namespace {

constexpr std::uint32_t kMax32 = std::numeric_limits<std::uint32_t>::max();
// Names are compared for aliases only; this many reads settle every honest file.
constexpr std::size_t kMaxNamesCompared = 1'000'000;
constexpr std::size_t kMaxComparedBytes = 1024;

std::optional<std::uint8_t> rank_of(const Elf64_Sym& symbol, const std::vector<Elf64_Shdr>& sections) {
  const unsigned type = ELF64_ST_TYPE(symbol.st_info);
  const unsigned binding = ELF64_ST_BIND(symbol.st_info);
  const bool named_section = symbol.st_shndx < sections.size();
  const bool code = type == STT_FUNC || type == STT_GNU_IFUNC;
  const bool assembly = type == STT_NOTYPE && named_section &&
                        (sections[symbol.st_shndx].sh_flags & SHF_EXECINSTR) != 0 &&
                        (binding != STB_LOCAL || symbol.st_size != 0);
  if (!code && !assembly) return {};
  constexpr std::uint8_t kUntyped = 4;
  const std::uint8_t base = code ? 0 : kUntyped;
  switch (binding) {
    case STB_GLOBAL:
    case STB_GNU_UNIQUE: return base;
    case STB_WEAK: return base + 1;
    case STB_LOCAL: return base + 2;
    default: return base + 3;
  }
}

const CodeSegment* segment_of(std::uint64_t address, const std::vector<CodeSegment>& code) {
  for (const CodeSegment& segment : code) {
    if (address >= segment.virtual_address && address - segment.virtual_address < segment.memory_bytes) return &segment;
  }
  return nullptr;
}

class Collector {
 public:
  explicit Collector(const ElfFile& elf) : elf_(elf), sections_(elf.sections()) {
    for (const CodeSegment& segment : elf.code()) base_ = std::min(base_, segment.virtual_address);
  }

  // Candidates of the first table of `type` that has any; the section they come from, or null.
  const Elf64_Shdr* collect(std::uint32_t type) {
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != type || section.sh_link >= sections_.size()) continue;
      elf_.each_symbol(section, [&](const Elf64_Sym& symbol) { add(symbol); });
      if (!candidates_.empty()) return &section;
    }
    return nullptr;
  }

  [[nodiscard]] const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  [[nodiscard]] std::uint64_t base() const { return base_; }
  std::vector<Candidate>& candidates() { return candidates_; }

 private:
  void add(const Elf64_Sym& symbol) {
    const bool placed =
        symbol.st_shndx != SHN_UNDEF && (symbol.st_shndx < SHN_LORESERVE || symbol.st_shndx == SHN_XINDEX);
    if (!placed || symbol.st_name == 0) return;
    const CodeSegment* segment = segment_of(symbol.st_value, elf_.code());
    if (segment == nullptr || symbol.st_value - base_ >= kMax32) return;
    const auto rank = rank_of(symbol, sections_);
    if (!rank) return;
    std::uint64_t limit = segment->virtual_address + segment->memory_bytes;
    if (symbol.st_shndx < sections_.size()) {
      const Elf64_Shdr& home = sections_[symbol.st_shndx];
      const std::uint64_t end = home.sh_addr + home.sh_size;
      if (end > home.sh_addr) limit = std::min(limit, end);
    }
    const std::uint64_t room = segment->virtual_address + segment->memory_bytes - symbol.st_value;
    const std::uint64_t start = symbol.st_value - base_;
    candidates_.push_back(
        {.start = static_cast<std::uint32_t>(start),
         .bytes = static_cast<std::uint32_t>(std::min({symbol.st_size, room, kMax32 - start})),
         .limit = limit < base_ ? 0 : static_cast<std::uint32_t>(std::min<std::uint64_t>(limit - base_, kMax32)),
         .name = symbol.st_name,
         .rank = *rank});
  }

  const ElfFile& elf_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<Candidate> candidates_;
  std::uint64_t base_ = std::numeric_limits<std::uint64_t>::max();
};

}  // namespace

bool is_better_name(std::string_view a, std::string_view b) {
  const auto key = [](std::string_view name) {
    const std::size_t underscores = std::min(name.find_first_not_of('_'), name.size());
    return std::tuple(name.empty(), underscores, name.size(), name);
  };
  return key(a) < key(b);
}

SymbolTable SymbolTable::read(const ElfFile& elf, const ByteSource& source) {
  SymbolTable table;
  Collector collector(elf);
  const Elf64_Shdr* symbols = collector.collect(SHT_SYMTAB);
  if (symbols == nullptr) symbols = collector.collect(SHT_DYNSYM);
  if (symbols == nullptr) return table;
  const Elf64_Shdr& strings = collector.sections()[symbols->sh_link];
  if (strings.sh_type != SHT_STRTAB || strings.sh_offset > source.size()) return table;
  table.strings_offset_ = strings.sh_offset;
  table.strings_end_ = strings.sh_offset + std::min(strings.sh_size, source.size() - strings.sh_offset);
  WindowReader names(source);
  std::size_t compared = 0;
  const auto name_of = [&](const Candidate& symbol) {
    return std::string(names.text_at(table.strings_offset_ + symbol.name, table.strings_end_, kMaxComparedBytes));
  };
  table.ranges_ =
      SymbolRanges(collector.base(), decide_ranges(collector.candidates(), [&](const Candidate& a, const Candidate& b) {
                     return ++compared <= kMaxNamesCompared && is_better_name(name_of(a), name_of(b));
                   }));
  return table;
}

std::string SymbolTable::name(std::size_t index, const ByteSource& source) const {
  std::string name;
  std::uint64_t at = strings_offset_ + ranges_[index].name;
  constexpr std::size_t kStep = 256;  // most names fit
  for (std::size_t step = kStep; at < strings_end_ && name.size() < kMaxNameBytes; step *= 4) {
    const std::size_t have = name.size();
    name.resize(have + std::min({std::uint64_t{step}, strings_end_ - at, std::uint64_t{kMaxNameBytes - have}}));
    const std::size_t got = source.read_some(at, std::span(name).subspan(have));
    const std::size_t end = name.find('\0', have);
    if (end < have + got) return name.substr(0, end);
    if (got < name.size() - have) return {};
    at += got;
  }
  return name;
}

}  // namespace spanfold::proc
