// SPDX-License-Identifier: Apache-2.0
#include "proc/elf_file.h"

#include <algorithm>
#include <array>
#include <bit>

namespace spanfold::proc {
namespace {

struct Layout32 {
  using Header = Elf32_Ehdr;
  using Segment = Elf32_Phdr;
  using Section = Elf32_Shdr;
  using Symbol = Elf32_Sym;
};
struct Layout64 {
  using Header = Elf64_Ehdr;
  using Segment = Elf64_Phdr;
  using Section = Elf64_Shdr;
  using Symbol = Elf64_Sym;
};

constexpr std::size_t kMaxSegments = 512;  // linkers make about 15
constexpr std::uint64_t kMaxNoteBytes = 64UL * 1024;
constexpr std::size_t kMaxNoteSegments = 16;
constexpr unsigned char kHostOrder = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;

template <typename Segment>
Elf64_Phdr widen_segment(const Segment& segment) {
  return {.p_type = segment.p_type,
          .p_flags = segment.p_flags,
          .p_offset = segment.p_offset,
          .p_vaddr = segment.p_vaddr,
          .p_paddr = segment.p_paddr,
          .p_filesz = segment.p_filesz,
          .p_memsz = segment.p_memsz,
          .p_align = segment.p_align};
}

template <typename Section>
Elf64_Shdr widen_section(const Section& section) {
  return {section.sh_name, section.sh_type, section.sh_flags, section.sh_addr,      section.sh_offset,
          section.sh_size, section.sh_link, section.sh_info,  section.sh_addralign, section.sh_entsize};
}

template <typename Symbol>
Elf64_Sym widen_symbol(const Symbol& symbol) {
  return {.st_name = symbol.st_name,
          .st_info = symbol.st_info,
          .st_other = symbol.st_other,
          .st_shndx = symbol.st_shndx,
          .st_value = symbol.st_value,
          .st_size = symbol.st_size};
}

}  // namespace

std::optional<ElfFile> ElfFile::read(const ByteSource& source) {
  std::array<unsigned char, EI_NIDENT> ident{};
  if (!source.read_struct(0, ident)) return {};
  if (std::memcmp(ident.data(), ELFMAG, SELFMAG) != 0 || ident[EI_DATA] != kHostOrder) return {};
  ElfFile file(source);
  file.wide_ = ident[EI_CLASS] == ELFCLASS64;
  if (!file.wide_ && ident[EI_CLASS] != ELFCLASS32) return {};
  const bool good = file.wide_ ? file.read_headers<Layout64>() : file.read_headers<Layout32>();
  if (!good) return {};
  return file;
}

template <typename Layout>
bool ElfFile::read_headers() {
  typename Layout::Header header;
  if (!source_->read_struct(0, header)) return false;
  if (header.e_type != ET_EXEC && header.e_type != ET_DYN) return false;
  machine_ = header.e_machine;
  if (header.e_phentsize != sizeof(typename Layout::Segment) || header.e_phnum > kMaxSegments) return false;
  segment_table_offset_ = header.e_phoff;
  segment_count_ = header.e_phnum;
  std::size_t notes = 0;
  each_item<typename Layout::Segment>(*source_, header.e_phoff, header.e_phnum, [&](const auto& segment) {
    if (segment.p_type == PT_NOTE && notes++ < kMaxNoteSegments) {
      read_notes(segment.p_offset, segment.p_filesz, segment.p_align);
    }
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) return;
    const CodeSegment code{segment.p_vaddr, segment.p_memsz, segment.p_offset, segment.p_filesz};
    const bool wraps = code.virtual_address + code.memory_bytes < code.virtual_address ||
                       code.file_offset + code.file_bytes < code.file_offset;
    if (!wraps && code.file_bytes <= code.memory_bytes) code_.push_back(code);
  });
  if (header.e_shentsize == sizeof(typename Layout::Section) && header.e_shoff != 0) {
    section_table_offset_ = header.e_shoff;
    section_count_ = header.e_shnum;
    section_names_ = header.e_shstrndx;
  }
  return true;
}

void ElfFile::read_notes(std::uint64_t offset, std::uint64_t bytes, std::uint64_t alignment) {
  std::string notes(std::min(bytes, kMaxNoteBytes), '\0');
  notes.resize(source_->read_some(offset, notes));
  collect_notes(notes, alignment, ids_);
}

const CodeSegment* ElfFile::segment_at(std::uint64_t file_offset) const {
  const CodeSegment* found = nullptr;
  for (const CodeSegment& segment : code_) {
    if (file_offset < segment.file_offset || file_offset - segment.file_offset >= segment.file_bytes) continue;
    const bool agrees = found == nullptr ||
                        found->virtual_address - found->file_offset == segment.virtual_address - segment.file_offset;
    if (!agrees) return nullptr;
    if (found == nullptr) found = &segment;
  }
  return found;
}

bool ElfFile::is_laid_out_as(const ElfFile& other) const {
  return wide_ == other.wide_ && machine_ == other.machine_ &&
         std::equal(code_.begin(), code_.end(), other.code_.begin(), other.code_.end(),
                    [](const auto& a, const auto& b) {
                      return a.virtual_address == b.virtual_address && a.memory_bytes == b.memory_bytes;
                    });
}

std::vector<Elf64_Phdr> ElfFile::segments() const {
  std::vector<Elf64_Phdr> segments;
  const auto take = [&](const auto& segment) { segments.push_back(widen_segment(segment)); };
  if (wide_) {
    each_item<Elf64_Phdr>(*source_, segment_table_offset_, segment_count_, take);
  } else {
    each_item<Elf32_Phdr>(*source_, segment_table_offset_, segment_count_, take);
  }
  return segments;
}

std::vector<Elf64_Shdr> ElfFile::sections() const {
  std::vector<Elf64_Shdr> sections;
  const auto take = [&](const auto& section) { sections.push_back(widen_section(section)); };
  if (wide_) {
    each_item<Elf64_Shdr>(*source_, section_table_offset_, section_count_, take);
  } else {
    each_item<Elf32_Shdr>(*source_, section_table_offset_, section_count_, take);
  }
  return sections;
}

std::optional<Elf64_Shdr> ElfFile::section_named(std::string_view name) const {
  const std::vector<Elf64_Shdr> all = sections();
  if (section_names_ >= all.size()) return {};
  const Elf64_Shdr& names = all[section_names_];
  constexpr std::uint64_t kMostNameBytes = 512UL * 1024;  // linkers write some hundreds; as much as the reader holds
  const std::uint64_t end = names.sh_offset + std::min(names.sh_size, kMostNameBytes);
  WindowReader reader(*source_);
  for (const Elf64_Shdr& section : all) {
    if (section.sh_type == SHT_NOBITS) continue;
    if (reader.text_at(names.sh_offset + section.sh_name, end, name.size() + 1) == name) return section;
  }
  return {};
}

void ElfFile::each_symbol(const Elf64_Shdr& table, const std::function<void(const Elf64_Sym&)>& take) const {
  const std::uint64_t entry_bytes = wide_ ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
  if (table.sh_entsize != entry_bytes) return;
  const std::uint64_t count = std::min(table.sh_size / entry_bytes, kMaxSymbols);
  const auto give = [&](const auto& symbol) { take(widen_symbol(symbol)); };
  if (wide_) {
    each_item<Elf64_Sym>(*source_, table.sh_offset, count, give);
  } else {
    each_item<Elf32_Sym>(*source_, table.sh_offset, count, give);
  }
}

}  // namespace spanfold::proc
