// SPDX-License-Identifier: Apache-2.0
#include "proc/v8_file.h"

#include "proc/elf_file.h"

namespace spanfold::proc {

bool embeds_v8(const ByteSource& source) {
  constexpr std::string_view kPrefix = "_ZN2v8";
  const auto elf = ElfFile::read(source);
  if (!elf) return false;
  WindowReader names(source);
  const std::vector<Elf64_Shdr> sections = elf->sections();
  bool found = false;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& strings = sections[section.sh_link];
    elf->each_symbol(section, [&](const Elf64_Sym& symbol) {
      if (found || symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) return;
      if (symbol.st_name >= strings.sh_size) return;
      found = names.bytes_at(strings.sh_offset + symbol.st_name, kPrefix.size()) == kPrefix;
    });
    break;
  }
  return found;
}

}  // namespace spanfold::proc
