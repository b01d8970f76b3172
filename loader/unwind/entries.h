// SPDX-License-Identifier: Apache-2.0
// The entries of call-frame information: what functions there are, and what they share. Their instructions are left to
// the interpreter. Formats: DWARF 5, 6.4.1; Linux Standard Base Core, 10.6.1.
#pragma once

#include <cstdint>
#include <vector>

#include "proc/elf_file.h"
#include "unwind/frame_section.h"
#include "unwind/interpreter.h"
#include "unwind/machine.h"

namespace spanfold::unwind {

// Instructions for the code at [begin, end), which lies in one segment.
struct Described {
  std::uint32_t begin = 0;  // bytes after the table's base
  std::uint32_t end = 0;
  std::uint32_t instructions = 0;  // where they stand in the section
  std::uint32_t instruction_bytes = 0;
  std::uint16_t cie = 0;
  std::uint8_t section = 0;
};

class Entries {
 public:
  static constexpr std::size_t kMostCies = 65'536;
  static constexpr std::size_t kMostFunctions = 2'000'000;

  // `code` are the segments that addresses must lie in; `base` is what offsets count from.
  Entries(const Machine& machine, std::vector<proc::CodeSegment> code, std::uint64_t base);

  // Reads a section; call it for the one that counts more first.
  void add(FrameSection added);

  // By begin, then by section, then as they stand there.
  void sort();

  [[nodiscard]] const std::vector<Described>& functions() const { return functions_; }
  [[nodiscard]] const Cie& cie_of(const Described& function) const { return cies_[function.cie]; }
  [[nodiscard]] const FrameSection& section_of(const Described& function) const { return sections_[function.section]; }

  // Functions that could not be read, placed or kept.
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  struct Entry {
    std::uint64_t begin = 0;    // of the length, in the section
    std::uint64_t pointer = 0;  // where the CIE is, for a function
    bool is_cie = false;
    std::uint64_t body = 0;
    std::uint64_t end = 0;
  };
  template <typename Take>
  void each_entry(const FrameSection& section, Take take) const;
  void add_cie(const FrameSection& section, const Entry& entry);
  [[nodiscard]] bool read_augmentation(Cursor& cursor, std::string_view letters, const FrameSection& section,
                                       Cie& cie) const;
  void add_function(const FrameSection& section, const Entry& entry);
  [[nodiscard]] const Cie* find_cie(std::uint64_t offset) const;
  [[nodiscard]] bool place(std::uint64_t begin, std::uint64_t bytes, Described& function) const;

  Machine machine_;
  Interpreter interpreter_;
  std::vector<proc::CodeSegment> code_;
  std::uint64_t base_;
  std::vector<FrameSection> sections_;
  std::vector<Cie> cies_;      // by section and offset
  std::size_t first_cie_ = 0;  // of the section that is being read
  std::vector<Described> functions_;
  std::uint64_t left_out_ = 0;
};

}  // namespace spanfold::unwind
