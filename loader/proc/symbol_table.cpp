// SPDX-License-Identifier: Apache-2.0
#include "proc/symbol_table.h"

#include "proc/elf_file.h"
#include "proc/symbol_collector.h"

namespace spanfold::proc {

SymbolTable SymbolTable::read(const std::shared_ptr<const ByteSource>& file) {
  SymbolTable table;
  const auto elf = ElfFile::read(*file);
  if (!elf) return table;
  SymbolCollector collector(elf->code(), table.names_);
  if (!collector.add_symbols(*elf, file, SHT_SYMTAB)) (void)collector.add_symbols(*elf, file, SHT_DYNSYM);
  collector.add_plt(*elf, file);
  table.ranges_ = collector.decide();
  return table;
}

}  // namespace spanfold::proc
