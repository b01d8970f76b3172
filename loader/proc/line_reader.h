// SPDX-License-Identifier: Apache-2.0
// Addresses of one ELF file to places in source code, by its DWARF through elfutils' libdw. For the process in
// line_worker.h only: libdw may stumble over a hostile file.
#pragma once

#include <elfutils/libdw.h>
#include <libelf.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "proc/line_wire.h"

namespace spanfold::proc {

class LineReader {
 public:
  // Null where the file has no debug information that libdw can read.
  [[nodiscard]] static std::unique_ptr<LineReader> open(Fd fd);

  // `address` is the file's own (ELF virtual address).
  [[nodiscard]] RawLines lines_at(std::uint64_t address);

 private:
  struct Range {
    Dwarf_Addr begin = 0;
    Dwarf_Addr end = 0;
    Dwarf_Off die = 0;
  };
  using Ranges = std::vector<Range>;  // by begin
  struct ElfEnd {
    void operator()(Elf* elf) const { elf_end(elf); }
  };
  struct DwarfEnd {
    void operator()(Dwarf* dwarf) const { dwarf_end(dwarf); }
  };

  LineReader() = default;
  void index_units();
  const Ranges& functions_of(Dwarf_Die& unit);
  void index_functions(Dwarf_Die& parent, int depth, Ranges& into);
  static void add_ranges(Dwarf_Die& die, Ranges& into);
  static void sort(Ranges& ranges);
  static const Range* range_at(const Ranges& ranges, Dwarf_Addr address);
  // The subprogram that holds `address` and what is inlined there, outermost first.
  std::vector<Dwarf_Die> chain_at(Dwarf_Die& unit, Dwarf_Addr address);

  Fd fd_;
  std::unique_ptr<Elf, ElfEnd> elf_;
  std::unique_ptr<Dwarf, DwarfEnd> dwarf_;
  Ranges units_;
  std::map<Dwarf_Off, Ranges> functions_;  // by unit
};

}  // namespace spanfold::proc
