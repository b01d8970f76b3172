// SPDX-License-Identifier: Apache-2.0
// A file whose addresses are asked for their names.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "proc/elf_file.h"
#include "proc/symbol_table.h"

namespace spanfold::proc::test {

class NamedFile {
 public:
  explicit NamedFile(const std::string& path)
      : source_(std::make_shared<MemorySource>(*read_file(path, 512 << 20))), elf_(ElfFile::read(*source_)) {
    REQUIRE(elf_.has_value());
    table_ = SymbolTable::read(source_);
  }
  // As it stands in the file; empty where no symbol covers the address.
  [[nodiscard]] std::string name(std::uint64_t address) const {
    const std::size_t index = table_.find(address);
    return index == SymbolRanges::kNone ? std::string() : table_.name(index);
  }
  [[nodiscard]] const ElfFile& elf() const { return *elf_; }
  [[nodiscard]] const SymbolTable& table() const { return table_; }

 private:
  std::shared_ptr<const MemorySource> source_;
  std::optional<ElfFile> elf_;
  SymbolTable table_;
};

}  // namespace spanfold::proc::test
