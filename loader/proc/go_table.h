// SPDX-License-Identifier: Apache-2.0
// The functions of a Go program out of its line table, which the runtime needs and which stripping leaves: where each
// begins, and its name. Formats of Go 1.16, 1.18 and 1.20 (and later); source: Go's runtime/symtab.go, debug/gosym.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "proc/byte_source.h"
#include "proc/elf_file.h"

namespace spanfold::proc {

class GoTable {
 public:
  // None where the file is no Go program, or its table makes no sense. Reads headers only, but for position-independent
  // programs that another linker made: these are searched for the table.
  [[nodiscard]] static std::optional<GoTable> find(const ElfFile& elf, const ByteSource& source);

  // What the Go compiler made: code of other languages (cgo) lies outside.
  [[nodiscard]] bool holds(std::uint64_t address) const { return address >= text_begin_ && address < text_end_; }
  [[nodiscard]] std::uint64_t text_begin() const { return text_begin_; }
  [[nodiscard]] std::uint64_t text_end() const { return text_end_; }

  // The strings of names, in the file.
  [[nodiscard]] std::uint64_t names_offset() const { return offset_ + names_; }
  [[nodiscard]] std::uint64_t names_bytes() const { return names_bytes_; }

  // Series of (zigzag difference of a value, difference of addresses), both as varints, in the file.
  [[nodiscard]] std::uint64_t pc_data_offset() const { return offset_ + pc_data_; }
  [[nodiscard]] std::uint64_t pc_data_bytes() const { return functions_ - pc_data_; }
  [[nodiscard]] std::uint64_t instruction_bytes() const { return instruction_bytes_; }

  struct Function {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;    // the beginning of the next: Go's table knows no gaps
    std::uint32_t name = 0;   // offset in the strings
    std::uint32_t stack = 0;  // offset of how deep its stack is, in the pc data; 0: nothing is said
    bool is_top = false;      // nobody called it: the outermost frame of a goroutine or thread
    bool switches = false;    // it goes to another stack in between
  };
  // In order of address, as far as they can be read and at most ElfFile::kMaxSymbols.
  void each_function(const ByteSource& source, const std::function<void(const Function&)>& take) const;

 private:
  static std::optional<GoTable> parse(const ByteSource& source, std::uint64_t offset, std::uint64_t bytes);
  static std::optional<GoTable> search(const ElfFile& elf, const ByteSource& source, const Elf64_Shdr& section);
  bool place(const ElfFile& elf, const ByteSource& source, std::uint64_t address);
  // Of a field in the list of functions; it has two for each.
  [[nodiscard]] std::uint64_t field_bytes() const { return is_absolute_ ? pointer_bytes_ : sizeof(std::uint32_t); }

  std::uint64_t offset_ = 0;  // of the header, in the file
  std::uint64_t pointer_bytes_ = 8;
  bool is_absolute_ = false;  // Go 1.16: addresses; later: offsets from where the text begins
  std::uint64_t stated_text_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t names_ = 0;  // after the header
  std::uint64_t names_bytes_ = 0;
  std::uint64_t pc_data_ = 0;    // after the header
  std::uint64_t functions_ = 0;  // after the header
  std::uint64_t instruction_bytes_ = 1;
  std::uint64_t flag_at_ = 0;  // in the description of a function
  std::uint64_t text_ = 0;     // what offsets count from
  std::uint64_t text_begin_ = 0;
  std::uint64_t text_end_ = 0;
};

}  // namespace spanfold::proc
