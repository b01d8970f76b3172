// SPDX-License-Identifier: Apache-2.0
#include "unwind/frame_section.h"

#include <algorithm>
#include <string_view>

#include "unwind/inflate.h"
#include "unwind/pointer.h"

namespace spanfold::unwind {
namespace {

struct Part {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// Where the file holds what will be loaded at `address`, up to the end of that segment.
std::optional<Part> part_at(const proc::ElfFile& elf, std::uint64_t address) {
  for (const Elf64_Phdr& segment : elf.segments()) {
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr) continue;
    const std::uint64_t skip = address - segment.p_vaddr;
    if (skip < segment.p_filesz) return Part{segment.p_offset + skip, segment.p_filesz - skip};
  }
  return {};
}

// What the file has of it; fewer bytes than were claimed where it ends early.
std::optional<std::string> copy_of(const proc::ByteSource& source, const Part& part) {
  if (part.offset >= source.size()) return {};
  const std::uint64_t length = std::min(part.bytes, source.size() - part.offset);
  if (length > FrameSection::kMostBytes) return {};
  std::string bytes(length, '\0');
  bytes.resize(source.read_some(part.offset, bytes));
  return bytes;
}

std::optional<std::string> unpacked(const proc::ByteSource& source, const Elf64_Shdr& section) {
  Elf64_Chdr header{};
  if (section.sh_size < sizeof header || !source.read_struct(section.sh_offset, header)) return {};
  if (header.ch_type != ELFCOMPRESS_ZLIB || header.ch_size > FrameSection::kMostBytes) return {};
  return inflate_part(source, section.sh_offset + sizeof header, section.sh_size - sizeof header, header.ch_size);
}

// The length of .eh_frame up to its terminator: what follows belongs to another section.
std::size_t terminated(std::string_view bytes) {
  Cursor cursor(bytes);
  while (cursor.left() >= sizeof(std::uint32_t)) {
    const std::size_t begin = cursor.offset();
    std::uint64_t length = cursor.number<std::uint32_t>();
    if (length == 0) return begin;
    if (length == 0xffffffff) length = cursor.number<std::uint64_t>();
    cursor.block(length);
    if (!cursor.good()) return begin;
  }
  return bytes.size();
}

// Source of the format: Linux Standard Base Core, 10.6.2.
std::optional<FrameSection> by_frame_header(const proc::ElfFile& elf, const proc::ByteSource& source) {
  const auto segments = elf.segments();
  const auto header = std::find_if(segments.begin(), segments.end(),
                                   [](const auto& segment) { return segment.p_type == PT_GNU_EH_FRAME; });
  if (header == segments.end()) return {};
  constexpr std::uint64_t kEnough = 16;  // version, three encodings, a pointer
  FrameSection head;
  auto bytes = copy_of(source, {header->p_offset, std::min(header->p_filesz, kEnough)});
  if (!bytes) return {};
  head.bytes = std::move(*bytes);
  head.address = header->p_vaddr;
  head.data_base = header->p_vaddr;
  Cursor cursor(head.bytes);
  if (cursor.number<std::uint8_t>() != 1) return {};
  const auto encoding = cursor.number<std::uint8_t>();
  cursor.block(2);  // how the search table is encoded: it has less than the section itself
  const auto address = read_pointer(cursor, encoding, 8, head);
  auto part = address ? part_at(elf, *address) : std::nullopt;
  if (part) part->bytes = std::min(part->bytes, FrameSection::kMostBytes);  // the segment goes on with other things
  auto found = part ? copy_of(source, *part) : std::nullopt;
  if (!found) return {};
  found->resize(terminated(*found));
  return FrameSection{.bytes = std::move(*found), .address = *address};
}

void find_bases(const proc::ElfFile& elf, FrameSection& section) {
  if (const auto text = elf.section_named(".text")) section.text_base = text->sh_addr;
  auto data = elf.section_named(".got.plt");
  if (!data) data = elf.section_named(".got");
  if (data) section.data_base = data->sh_addr;
}

}  // namespace

std::optional<FrameSection> find_eh_frame(const proc::ElfFile& elf, const proc::ByteSource& source) {
  std::optional<FrameSection> found;
  const auto section = elf.section_named(".eh_frame");
  // No linker packs it: the program itself reads it.
  if (section && (section->sh_flags & SHF_COMPRESSED) == 0) {
    auto bytes = copy_of(source, {section->sh_offset, section->sh_size});
    if (bytes) found = FrameSection{.bytes = std::move(*bytes), .address = section->sh_addr};
  } else {
    found = by_frame_header(elf, source);
  }
  if (found) find_bases(elf, *found);
  return found;
}

std::optional<FrameSection> find_debug_frame(const proc::ElfFile& elf, const proc::ByteSource& source) {
  const auto section = elf.section_named(".debug_frame");
  if (!section) return {};
  auto bytes = (section->sh_flags & SHF_COMPRESSED) != 0 ? unpacked(source, *section)
                                                         : copy_of(source, {section->sh_offset, section->sh_size});
  if (!bytes) return {};
  return FrameSection{.bytes = std::move(*bytes), .address = section->sh_addr, .is_debug = true};
}

}  // namespace spanfold::unwind
