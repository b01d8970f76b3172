// SPDX-License-Identifier: Apache-2.0
// Gathers what a file and its companions say of its functions, and decides who owns which byte. The rules stand in
// symbol_table.h and symbol_ranges.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "proc/elf_file.h"
#include "proc/go_table.h"
#include "proc/plt.h"
#include "proc/symbol_names.h"
#include "proc/symbol_ranges.h"

namespace spanfold::proc {

class SymbolCollector {
 public:
  // `code`: the executable segments of the file that is mapped, also for symbols that come from elsewhere. Both must
  // outlive the collector.
  SymbolCollector(const std::vector<CodeSegment>& code, SymbolNames& names);

  // The functions of the first table of `type` (SHT_SYMTAB, SHT_DYNSYM) that has any; false where none has. `source` is
  // what `elf` reads.
  bool add_symbols(const ElfFile& elf, const std::shared_ptr<const ByteSource>& source, std::uint32_t type);
  // The functions of a Go program.
  void add_go(const GoTable& table, const std::shared_ptr<const ByteSource>& source);
  // The stubs that call other files.
  void add_plt(const ElfFile& elf, const std::shared_ptr<const ByteSource>& source);

  // Ranges of all that was added; a stub lies only where there is no symbol. Ends the collector's life.
  [[nodiscard]] SymbolRanges decide();

 private:
  void add(const Elf64_Sym& symbol, const std::vector<Elf64_Shdr>& sections, std::uint32_t names_begin);
  std::uint32_t name_of(const PltStub& stub, const SymbolRanges& ranges);
  SymbolRanges with_stubs(const SymbolRanges& ranges);

  const std::vector<CodeSegment>& code_;
  SymbolNames& names_;
  std::uint64_t base_;
  std::vector<Candidate> candidates_;
  std::vector<PltStub> stubs_;
  std::optional<std::uint32_t> stub_names_;  // where the strings of .dynsym begin
};

}  // namespace spanfold::proc
