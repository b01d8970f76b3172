// SPDX-License-Identifier: Apache-2.0
// Unpacks an xz stream that somebody else wrote, within bounds of memory, output and gain.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "proc/byte_source.h"

namespace spanfold::proc {

struct UnpackLimits {
  std::uint64_t most_bytes = 64UL << 20;      // of output
  std::uint64_t most_gain = 100;              // bytes of output for one of input; symbol tables gain 3 to 10
  std::uint64_t always_bytes = 1UL << 20;     // of output, whatever the gain
  std::uint64_t decoder_memory = 66UL << 20;  // `xz -9` asks for 65 MiB
};

// The first stream at `offset`, which must end within `bytes` bytes. None where it is none, is damaged (its own checks
// fail), or breaks a limit: half of a symbol table is worth nothing.
[[nodiscard]] std::optional<std::string> unpack_xz(const ByteSource& source, std::uint64_t offset, std::uint64_t bytes,
                                                   const UnpackLimits& limits = {});

}  // namespace spanfold::proc
