// SPDX-License-Identifier: Apache-2.0
#include "image.h"

#include <doctest/doctest.h>
#include <zlib.h>

namespace spanfold::unwind::test {

void Frames::entry(std::uint64_t id, const std::string& body) {
  if (is_wide_) section_.fixed(0xffffffff, 4);
  section_.fixed(body.size() + (is_wide_ ? 8 : 4), is_wide_ ? 8 : 4);
  section_.fixed(id, is_wide_ ? 8 : 4).text(body);
}

std::size_t Frames::cie(const CieShape& shape) {
  Writer body;
  body.byte(shape.version).text(shape.letters).byte(0);
  if (shape.version == 4) body.byte(8).byte(0);
  body.uleb(shape.code_alignment).sleb(shape.data_alignment);
  if (shape.version == 1) {
    body.byte(shape.return_address);
  } else {
    body.uleb(shape.return_address);
  }
  const bool has_encoding = shape.letters.find('R') != std::string::npos;
  std::string data = shape.more_data;
  if (has_encoding) data += static_cast<char>(shape.encoding);
  if (shape.letters.starts_with('z')) body.block(data);
  body.text(shape.instructions);
  last_cie_ = section_.size();
  shape_ = shape;
  if (!has_encoding) shape_.encoding = DW_EH_PE_absptr;
  entry(is_debug_ ? ~0ULL : 0, body.bytes());
  return last_cie_;
}

Frames& Frames::function(std::uint64_t begin, std::uint64_t bytes, const std::string& instructions,
                         std::optional<std::size_t> cie) {
  const std::size_t at = section_.size() + (is_wide_ ? 12 : 4);  // of the pointer to the CIE
  const std::uint64_t here = kAddress + at + (is_wide_ ? 8 : 4);
  const auto field = [&](Writer& writer, std::uint64_t value) {
    switch (shape_.encoding & 0x0f) {
      case DW_EH_PE_uleb128: writer.uleb(value); break;
      case DW_EH_PE_sleb128: writer.sleb(static_cast<std::int64_t>(value)); break;
      case DW_EH_PE_udata2:
      case DW_EH_PE_sdata2: writer.fixed(value, 2); break;
      case DW_EH_PE_udata4:
      case DW_EH_PE_sdata4: writer.fixed(value, 4); break;
      default: writer.fixed(value, 8);
    }
  };
  Writer body;
  field(body, (shape_.encoding & 0x70) == DW_EH_PE_pcrel ? begin - here : begin);
  field(body, bytes);
  if (shape_.letters.starts_with('z')) body.uleb(0);
  body.text(instructions);
  const std::size_t cie_at = cie.value_or(last_cie_);
  entry(is_debug_ ? cie_at : at - cie_at, body.bytes());
  return *this;
}

namespace {

std::string packed(const std::string& plain) {
  std::string into(::compressBound(plain.size()), '\0');
  uLongf length = into.size();
  REQUIRE(::compress(reinterpret_cast<Bytef*>(into.data()), &length, reinterpret_cast<const Bytef*>(plain.data()),
                     plain.size()) == Z_OK);
  into.resize(length);
  const Elf64_Chdr header{.ch_type = ELFCOMPRESS_ZLIB, .ch_reserved = 0, .ch_size = plain.size(), .ch_addralign = 1};
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + into;
}

template <typename T>
void append(std::string& file, const T& value) {
  file.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// The second segment: a frame header, .eh_frame and what describes them.
struct Layout {
  std::string body;
  std::vector<Elf64_Shdr> sections{Elf64_Shdr{}};
  std::string names = std::string(1, '\0');

  void add(const char* name, std::uint32_t type, std::uint64_t flags, std::uint64_t address, std::uint64_t offset,
           std::uint64_t bytes) {
    sections.push_back({.sh_name = static_cast<Elf64_Word>(names.size()),
                        .sh_type = type,
                        .sh_flags = flags,
                        .sh_addr = address,
                        .sh_offset = offset,
                        .sh_size = bytes,
                        .sh_link = 0,
                        .sh_info = 0,
                        .sh_addralign = 1,
                        .sh_entsize = 0});
    names += name;
    names += '\0';
  }
};

}  // namespace

std::string image_of(std::string_view eh_frame, const ImageShape& shape) {
  constexpr std::uint64_t kHeaders = sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Phdr);
  constexpr std::uint64_t kFrameHeaderBytes = 16;
  Layout layout;
  Elf64_Ehdr header{};
  const unsigned char ident[] = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT};
  std::copy(std::begin(ident), std::end(ident), header.e_ident);
  header.e_type = ET_DYN;
  header.e_machine = shape.machine;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 3;
  header.e_shentsize = sizeof(Elf64_Shdr);

  // Version 1, a pointer from here, no search table; then where .eh_frame is.
  const std::uint64_t header_address = shape.frame_address - kFrameHeaderBytes;
  Writer frame_header;
  frame_header.byte(1).byte(DW_EH_PE_pcrel | DW_EH_PE_sdata4).byte(DW_EH_PE_omit).byte(DW_EH_PE_omit);
  frame_header.fixed(shape.frame_address - header_address - 4, 4).fixed(0, 8);
  std::string body = frame_header.bytes() + std::string(eh_frame);
  const std::uint64_t frame_at = kHeaders + kFrameHeaderBytes;
  const std::uint64_t debug_at = kHeaders + body.size();
  const std::string debug = shape.is_packed ? packed(shape.debug_frame) : shape.debug_frame;
  const std::uint64_t loaded = body.size();
  body += debug;

  const std::vector<std::pair<std::uint64_t, std::uint64_t>> whole{{shape.text, shape.text_bytes}};
  for (const auto& [address, bytes] : shape.code_sections.empty() ? whole : shape.code_sections) {
    layout.add(".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, address, 0, bytes);
  }
  if (!eh_frame.empty())
    layout.add(".eh_frame", SHT_PROGBITS, SHF_ALLOC, shape.frame_address, frame_at, eh_frame.size());
  if (!debug.empty()) {
    layout.add(".debug_frame", SHT_PROGBITS, shape.is_packed ? SHF_COMPRESSED : 0, 0, debug_at, debug.size());
  }
  layout.add(".shstrtab", SHT_STRTAB, 0, 0, kHeaders + body.size(), 0);
  layout.sections.back().sh_size = layout.names.size();
  body += layout.names;
  while ((kHeaders + body.size()) % alignof(Elf64_Shdr) != 0) body += '\0';
  if (shape.has_sections) {
    header.e_shoff = kHeaders + body.size();
    header.e_shnum = static_cast<Elf64_Half>(layout.sections.size());
    header.e_shstrndx = static_cast<Elf64_Half>(layout.sections.size() - 1);
  }
  std::string file;
  append(file, header);
  append(file, Elf64_Phdr{PT_LOAD, PF_R | PF_X, 0, shape.text, shape.text, 0, shape.text_bytes, 0x1000});
  append(file, Elf64_Phdr{PT_LOAD, PF_R, kHeaders, header_address, header_address, loaded, loaded, 1});
  append(file, Elf64_Phdr{static_cast<Elf64_Word>(shape.has_frame_header ? PT_GNU_EH_FRAME : PT_NULL), PF_R, kHeaders,
                          header_address, header_address, kFrameHeaderBytes, kFrameHeaderBytes, 4});
  file += body;
  for (const Elf64_Shdr& section : layout.sections) append(file, section);
  return file;
}

}  // namespace spanfold::unwind::test
