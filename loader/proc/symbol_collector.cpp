// SPDX-License-Identifier: Apache-2.0
#include "proc/symbol_collector.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace spanfold::proc {
namespace {

constexpr std::uint32_t kMax32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::string_view kPltSuffix = "@plt";
// Names are compared for aliases only; this many reads settle every honest file.
constexpr std::size_t kMaxNamesCompared = 1'000'000;
// Names may lie so that each is on a page of its own: a microsecond each, half a second in all.
constexpr std::uint64_t kMaxNameReads = 512UL * 1024;
constexpr std::size_t kMaxComparedBytes = 1024;
constexpr int kMaxTables = 4;  // of one type; linkers write one

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

const Elf64_Shdr* strings_of(const Elf64_Shdr& table, const std::vector<Elf64_Shdr>& sections) {
  if (table.sh_link >= sections.size()) return nullptr;
  const Elf64_Shdr& strings = sections[table.sh_link];
  return strings.sh_type == SHT_STRTAB ? &strings : nullptr;
}

}  // namespace

SymbolCollector::SymbolCollector(const std::vector<CodeSegment>& code, SymbolNames& names)
    : code_(code), names_(names), base_(std::numeric_limits<std::uint64_t>::max()) {
  for (const CodeSegment& segment : code) base_ = std::min(base_, segment.virtual_address);
}

bool SymbolCollector::add_symbols(const ElfFile& elf, const std::shared_ptr<const ByteSource>& source,
                                  std::uint32_t type) {
  const std::vector<Elf64_Shdr> sections = elf.sections();
  const std::size_t before = candidates_.size();
  int tables = 0;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != type || ++tables > kMaxTables) continue;
    const Elf64_Shdr* strings = strings_of(section, sections);
    const auto begin = strings != nullptr ? names_.add(source, strings->sh_offset, strings->sh_size) : std::nullopt;
    if (!begin) continue;
    elf.each_symbol(section, [&](const Elf64_Sym& symbol) {
      if (symbol.st_name < strings->sh_size) add(symbol, sections, *begin);
    });
    if (candidates_.size() > before) return true;
  }
  return false;
}

void SymbolCollector::add(const Elf64_Sym& symbol, const std::vector<Elf64_Shdr>& sections, std::uint32_t names_begin) {
  const bool placed =
      symbol.st_shndx != SHN_UNDEF && (symbol.st_shndx < SHN_LORESERVE || symbol.st_shndx == SHN_XINDEX);
  if (!placed || symbol.st_name == 0) return;
  const CodeSegment* segment = segment_of(symbol.st_value, code_);
  if (segment == nullptr || symbol.st_value - base_ >= kMax32) return;
  const auto rank = rank_of(symbol, sections);
  if (!rank) return;
  const std::uint64_t segment_end = segment->virtual_address + segment->memory_bytes;
  std::uint64_t limit = segment_end;
  if (symbol.st_shndx < sections.size()) {
    const Elf64_Shdr& home = sections[symbol.st_shndx];
    const std::uint64_t end = home.sh_addr + home.sh_size;
    if (end > home.sh_addr) limit = std::min(limit, end);
  }
  const std::uint64_t start = symbol.st_value - base_;
  candidates_.push_back(
      {.start = static_cast<std::uint32_t>(start),
       .bytes = static_cast<std::uint32_t>(std::min({symbol.st_size, segment_end - symbol.st_value, kMax32 - start})),
       .limit = limit < base_ ? 0 : static_cast<std::uint32_t>(std::min<std::uint64_t>(limit - base_, kMax32)),
       .name = names_begin + symbol.st_name,
       .rank = *rank});
}

void SymbolCollector::add_go(const GoTable& table, const std::shared_ptr<const ByteSource>& source) {
  const auto names_begin = names_.add(source, table.names_offset(), table.names_bytes());
  if (!names_begin) return;
  table.each_function(*source, [&](const GoTable::Function& function) {
    const CodeSegment* segment = segment_of(function.begin, code_);
    const std::uint64_t start = function.begin - base_;
    if (segment == nullptr || start >= kMax32) return;
    const std::uint64_t room = segment->virtual_address + segment->memory_bytes - function.begin;
    const std::uint64_t bytes = std::min({function.end - function.begin, room, kMax32 - start});
    candidates_.push_back({.start = static_cast<std::uint32_t>(start),
                           .bytes = static_cast<std::uint32_t>(bytes),
                           .name = *names_begin + function.name});
  });
}

void SymbolCollector::add_plt(const ElfFile& elf, const std::shared_ptr<const ByteSource>& source) {
  stubs_ = read_plt(elf, *source);
  if (stubs_.empty()) return;
  const std::vector<Elf64_Shdr> sections = elf.sections();
  for (const Elf64_Shdr& section : sections) {
    const Elf64_Shdr* strings = section.sh_type == SHT_DYNSYM ? strings_of(section, sections) : nullptr;
    if (strings != nullptr) stub_names_ = names_.add(source, strings->sh_offset, strings->sh_size, kPltSuffix);
    if (section.sh_type == SHT_DYNSYM) return;
  }
}

// Where no name is known the stub has none: kMax32.
std::uint32_t SymbolCollector::name_of(const PltStub& stub, const SymbolRanges& ranges) {
  if (stub.name != 0) return stub_names_ ? *stub_names_ + stub.name : kMax32;
  const std::size_t chooser = stub.resolver != 0 ? ranges.find(stub.resolver) : SymbolRanges::kNone;
  if (chooser == SymbolRanges::kNone || ranges.base() + ranges[chooser].start != stub.resolver) return kMax32;
  return names_.with_suffix(ranges[chooser].name, kPltSuffix).value_or(kMax32);
}

SymbolRanges SymbolCollector::with_stubs(const SymbolRanges& ranges) {
  std::vector<SymbolRange> all;
  all.reserve(ranges.size() + stubs_.size());
  std::size_t next = 0;
  std::uint64_t covered = 0;  // up to here
  const auto push = [&](const SymbolRange& range) {
    all.push_back(range);
    covered = std::uint64_t{range.start} + range.bytes;
  };
  for (const PltStub& stub : stubs_) {
    const std::uint32_t name = name_of(stub, ranges);
    const std::uint64_t start = stub.address - base_;
    if (name == kMax32 || segment_of(stub.address, code_) == nullptr || start >= kMax32 - stub.bytes) continue;
    while (next < ranges.size() && ranges[next].start < start) push(ranges[next++]);
    const bool taken = next < ranges.size() && ranges[next].start < start + stub.bytes;
    if (!taken && start >= covered) push({static_cast<std::uint32_t>(start), stub.bytes, name});
  }
  while (next < ranges.size()) push(ranges[next++]);
  all.shrink_to_fit();
  return {base_, std::move(all)};
}

SymbolRanges SymbolCollector::decide() {
  SymbolNames::Reader reader(names_);
  std::size_t compared = 0;
  const auto name_of = [&](const Candidate& symbol) { return std::string(reader.at(symbol.name, kMaxComparedBytes)); };
  const SymbolRanges ranges(base_, decide_ranges(candidates_, [&](const Candidate& a, const Candidate& b) {
                              return ++compared <= kMaxNamesCompared && reader.reads() <= kMaxNameReads &&
                                     is_better_name(name_of(a), name_of(b));
                            }));
  candidates_ = {};
  return stubs_.empty() ? ranges : with_stubs(ranges);
}

}  // namespace spanfold::proc
