// SPDX-License-Identifier: Apache-2.0
// Sound ELF files around parts that are not: what is inside of one section is reached without luck.
#pragma once

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace spanfold::fuzz {

struct Section {
  std::string name;
  std::uint32_t type = SHT_PROGBITS;
  std::uint64_t flags = SHF_ALLOC;
  std::uint64_t address = 0;
  std::string_view bytes;
  std::uint64_t entry_bytes = 0;
  std::uint32_t link = 0;  // number of a section; the first one is 1
};

constexpr std::uint64_t kCodeAddress = 0x401000;
constexpr std::uint64_t kCodeBytes = 0x1000;

// One executable segment, which spans the file, and these sections.
inline std::string make_elf(const std::vector<Section>& sections) {
  std::string names(1, '\0');
  std::string bytes(sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr), '\0');
  std::vector<Elf64_Shdr> headers(1);
  for (const Section& section : sections) {
    bytes.resize((bytes.size() + 7) / 8 * 8);
    headers.push_back({.sh_name = static_cast<Elf64_Word>(names.size()),
                       .sh_type = section.type,
                       .sh_flags = section.flags,
                       .sh_addr = section.address,
                       .sh_offset = bytes.size(),
                       .sh_size = section.bytes.size(),
                       .sh_link = section.link,
                       .sh_entsize = section.entry_bytes});
    names += section.name + '\0';
    bytes += section.bytes;
  }
  names += std::string(".shstrtab") + '\0';
  headers.push_back({.sh_name = static_cast<Elf64_Word>(names.size() - sizeof ".shstrtab"),
                     .sh_type = SHT_STRTAB,
                     .sh_offset = bytes.size(),
                     .sh_size = names.size()});
  bytes += names;
  bytes.resize((bytes.size() + 7) / 8 * 8);
  Elf64_Ehdr header{.e_type = ET_DYN,
                    .e_machine = EM_X86_64,
                    .e_version = EV_CURRENT,
                    .e_phoff = sizeof header,
                    .e_shoff = bytes.size(),
                    .e_ehsize = sizeof header,
                    .e_phentsize = sizeof(Elf64_Phdr),
                    .e_phnum = 1,
                    .e_shentsize = sizeof(Elf64_Shdr),
                    .e_shnum = static_cast<Elf64_Half>(headers.size()),
                    .e_shstrndx = static_cast<Elf64_Half>(headers.size() - 1)};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  const Elf64_Phdr segment{.p_type = PT_LOAD,
                           .p_flags = PF_R | PF_X,
                           .p_vaddr = kCodeAddress,
                           .p_filesz = bytes.size(),
                           .p_memsz = std::max<std::uint64_t>(bytes.size(), kCodeBytes)};
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, &segment, sizeof segment);
  bytes.append(reinterpret_cast<const char*>(headers.data()), headers.size() * sizeof(Elf64_Shdr));
  return bytes;
}

}  // namespace spanfold::fuzz
