// SPDX-License-Identifier: Apache-2.0
// What call-frame information says at one address, as far as a rule could say it too, and how it becomes a rule.
#pragma once

#include <cstdint>

#include "unwind/machine.h"
#include "unwind/rule.h"

namespace spanfold::unwind {

// How the canonical frame address is found.
struct FrameAddress {
  enum class Kind : std::uint8_t {
    kUnknown,   // not said, or said in a way that no rule can say
    kRegister,  // reg + offset
    kSlot,      // *(reg + slot) + offset
    kPlt,       // the expression of a procedure linkage table; `offset` is where in 16 bytes the push is done
  };
  Kind kind = Kind::kUnknown;
  std::uint16_t reg = 0;
  std::int64_t slot = 0;
  std::int64_t offset = 0;
};

// Where a register of the caller is.
struct Place {
  enum class Kind : std::uint8_t {
    kUnsaid,
    kUndefined,
    kSame,
    kAtFrame,     // *(CFA + offset)
    kAtRegister,  // *(reg + offset)
    kUnknown,     // said in a way that no rule can say
  };
  Kind kind = Kind::kUnsaid;
  std::uint16_t reg = 0;
  std::int64_t offset = 0;
};

// No register has this number; what is larger in a file becomes it.
constexpr std::uint64_t kNoRegister = 0xffff;

struct State {
  FrameAddress frame;
  // The register and the offset that were said last. An expression leaves them, and a register alone brings back the
  // offset: libgcc reads it like that, and libgcrypt's assembler needs it. (The standard forbids it; libdw gives up.)
  std::uint16_t said_reg = kNoRegister;
  bool is_expression = false;  // frame comes from one
  std::int64_t said_offset = 0;
  Place frame_pointer;
  Place return_address;
};

// A rule that says what `state` says, or kUnsupported. In a signal frame only glibc's trampoline for x86-64 is known:
// every register is in memory that the stack pointer leads to.
[[nodiscard]] Rule rule_of(const State& state, const Machine& machine, bool is_signal_frame);

constexpr Rule kUnsupportedRule{.cfa = Cfa::kUnsupported};

}  // namespace spanfold::unwind
