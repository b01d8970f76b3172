// SPDX-License-Identifier: Apache-2.0
// What call-frame information means on an architecture: the registers that matter, in DWARF's numbers.
#pragma once

#include <elf.h>

#include <cstdint>
#include <optional>

namespace spanfold::unwind {

struct Machine {
  bool is_arm64 = false;
  std::uint8_t stack_pointer = 0;
  std::uint8_t frame_pointer = 0;
  std::uint8_t return_address = 0;

  // Of an e_machine; 64-bit files only.
  [[nodiscard]] static std::optional<Machine> of(std::uint16_t machine) {
    if (machine == EM_X86_64) return Machine{.stack_pointer = 7, .frame_pointer = 6, .return_address = 16};
    if (machine == EM_AARCH64) {
      return Machine{.is_arm64 = true, .stack_pointer = 31, .frame_pointer = 29, .return_address = 30};
    }
    return {};
  }
};

}  // namespace spanfold::unwind
