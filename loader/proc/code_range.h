// SPDX-License-Identifier: Apache-2.0
// What code a process has, as those see it who unwind its stacks.
#pragma once

#include <cstdint>
#include <memory>

#include "proc/byte_source.h"

namespace spanfold::proc {

struct CodeRange {
  enum class Kind : std::uint8_t {
    kFile,       // of an ELF file, or the vDSO
    kGenerated,  // by a JIT compiler, or what a process wrote into its own memory
    kUprobes,    // of the kernel, for functions whose returns are probed
    kUnknown,    // of a file that could not be opened, or of nothing that has a name
  };
  std::uint64_t start = 0;  // run-time addresses
  std::uint64_t end = 0;
  Kind kind = Kind::kUnknown;
  std::uint64_t address = 0;  // of `start`, in the file (ELF virtual address)
  std::shared_ptr<const ByteSource> file;
};

}  // namespace spanfold::proc
