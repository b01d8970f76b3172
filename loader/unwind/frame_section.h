// SPDX-License-Identifier: Apache-2.0
// Finds call-frame information in an ELF file and takes a copy: .eh_frame by its section or by PT_GNU_EH_FRAME,
// .debug_frame, also packed (zlib). Does not look into it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "proc/byte_source.h"
#include "proc/elf_file.h"

namespace spanfold::unwind {

struct FrameSection {
  static constexpr std::uint64_t kMostBytes = 64UL << 20;  // of one; the largest program of Debian 12 has about 12 MiB

  std::string bytes;
  std::uint64_t address = 0;  // where the program finds it
  bool is_debug = false;      // .debug_frame, which writes CIEs and pointers to them in another way
  // What encoded pointers may count from (DW_EH_PE_textrel, DW_EH_PE_datarel), where the file says.
  std::optional<std::uint64_t> text_base;
  std::optional<std::uint64_t> data_base;
};

// None where there is none, or it is longer than kMostBytes. `elf` was read from `source`.
[[nodiscard]] std::optional<FrameSection> find_eh_frame(const proc::ElfFile& elf, const proc::ByteSource& source);
[[nodiscard]] std::optional<FrameSection> find_debug_frame(const proc::ElfFile& elf, const proc::ByteSource& source);

}  // namespace spanfold::unwind
