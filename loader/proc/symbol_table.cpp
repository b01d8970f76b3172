// SPDX-License-Identifier: Apache-2.0
#include "proc/symbol_table.h"

#include "proc/elf_file.h"
#include "proc/go_table.h"
#include "proc/symbol_collector.h"
#include "proc/unpack_xz.h"

namespace spanfold::proc {
namespace {

// The file within the file that MiniDebugInfo is; null where there is none that belongs to it.
std::shared_ptr<const MemorySource> unpack_debugdata(const ElfFile& elf, const ByteSource& file) {
  const auto section = elf.section_named(".gnu_debugdata");
  if (!section) return nullptr;
  auto bytes = unpack_xz(file, section->sh_offset, section->sh_size);
  if (!bytes) return nullptr;
  auto inner = std::make_shared<MemorySource>(*std::move(bytes));
  const auto inner_elf = ElfFile::read(*inner);
  return inner_elf && inner_elf->is_laid_out_as(elf) ? inner : nullptr;
}

}  // namespace

SymbolTable SymbolTable::read(const std::shared_ptr<const ByteSource>& file,
                              const std::shared_ptr<const ByteSource>& debug_file) {
  SymbolTable table;
  const auto elf = ElfFile::read(*file);
  if (!elf) return table;
  SymbolCollector collector(elf->code(), table.names_);
  std::shared_ptr<const MemorySource> unpacked;
  const auto debug_elf = debug_file ? ElfFile::read(*debug_file) : std::nullopt;
  if (!collector.add_symbols(*elf, file, SHT_SYMTAB) &&
      (!debug_elf || !collector.add_symbols(*debug_elf, debug_file, SHT_SYMTAB))) {
    unpacked = unpack_debugdata(*elf, *file);
    if (unpacked) (void)collector.add_symbols(*ElfFile::read(*unpacked), unpacked, SHT_SYMTAB);
    const auto go = GoTable::find(*elf, *file);
    if (go) collector.add_go(*go, file);
    (void)collector.add_symbols(*elf, file, SHT_DYNSYM);
  }
  collector.add_plt(*elf, file);
  table.ranges_ = collector.decide();
  if (unpacked) table.names_.keep_only_named(*unpacked, table.ranges_.all());
  return table;
}

}  // namespace spanfold::proc
