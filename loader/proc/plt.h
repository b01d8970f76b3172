// SPDX-License-Identifier: Apache-2.0
// The stubs by which calls leave a file (procedure linkage table), x86-64 and arm64. No symbol covers them: each is
// known by the slot that it jumps through, and that by the relocation that fills it. Decoding the jump needs no
// knowledge of the linker's order, and covers .plt, .plt.sec, .plt.bnd and .plt.got alike.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "proc/byte_source.h"
#include "proc/elf_file.h"

namespace spanfold::proc {

// One stub, as its instructions say.
struct PltJump {
  static constexpr std::uint32_t kNoIndex = ~std::uint32_t{0};
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
  std::uint32_t index = kNoIndex;  // where it pushes one: of its relocation in .rela.plt, and there is no slot
  std::uint64_t slot = 0;          // address of the pointer that it jumps through
};

// Those in `code`, which lies at `address`.
[[nodiscard]] std::vector<PltJump> find_plt_jumps(std::uint16_t machine, std::string_view code, std::uint64_t address);

// One stub, as the file's relocations say: to a symbol of .dynsym, or to what a function of this file chooses (IFUNC).
struct PltStub {
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
  std::uint32_t name = 0;      // offset in the strings of .dynsym; 0: none
  std::uint64_t resolver = 0;  // address of the function that chooses; 0: none
};

// All stubs of a file, by address. Empty for other machines.
[[nodiscard]] std::vector<PltStub> read_plt(const ElfFile& elf, const ByteSource& source);

}  // namespace spanfold::proc
