// SPDX-License-Identifier: Apache-2.0
// The functions of one ELF file: 12 bytes each in memory, names stay in the file until somebody asks.
//
// Which symbols count: of .symtab; or, where that has no function, of the .symtab of the debug file; or, where there is
// none, of .gnu_debugdata (a packed .symtab of what .dynsym lacks), of Go's line table and of .dynsym together. Of
// these, those of type FUNC and GNU_IFUNC, and those without a type in an executable section (assembly) unless they are
// local and have no size (labels), as far as they lie in an executable PT_LOAD. Who wins where several claim a byte is
// said at decide_ranges; the ranks are: a type before none, then global, weak, local; then the name with fewer leading
// underscores, the shorter, the first in byte order. A symbol without a size ends with its section. Where no symbol
// lies, stubs that call other files are "name@plt". An address that none of them covers has no name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "proc/byte_source.h"
#include "proc/symbol_names.h"
#include "proc/symbol_ranges.h"

namespace spanfold::proc {

class SymbolTable {
 public:
  // Reads the table; empty where the file has none that can be read. `debug_file` belongs to it for certain; null:
  // none. Addresses are ELF virtual addresses.
  [[nodiscard]] static SymbolTable read(const std::shared_ptr<const ByteSource>& file,
                                        const std::shared_ptr<const ByteSource>& debug_file = nullptr);

  [[nodiscard]] std::size_t find(std::uint64_t address) const { return ranges_.find(address); }
  // The mangled name, read from where it lies now; empty where that fails.
  [[nodiscard]] std::string name(std::size_t index) const { return names_.at(ranges_[index].name); }
  // False once somebody has written into a file that names come from.
  [[nodiscard]] bool unchanged() const { return names_.unchanged(); }
  [[nodiscard]] const SymbolNames& names() const { return names_; }
  [[nodiscard]] std::uint64_t start(std::size_t index) const { return ranges_.base() + ranges_[index].start; }
  [[nodiscard]] std::size_t size() const { return ranges_.size(); }
  [[nodiscard]] std::size_t memory_bytes() const { return ranges_.memory_bytes() + names_.memory_bytes(); }

 private:
  SymbolNames names_;
  SymbolRanges ranges_;
};

}  // namespace spanfold::proc
