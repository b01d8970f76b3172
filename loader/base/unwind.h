// SPDX-License-Identifier: Apache-2.0
// How to get from a frame to the one that called it: unwind makes it of call-frame information, bpf walks by it.
// Registers are DWARF's numbers of the architecture of the file (x86-64: System V ABI, figure 3.36; arm64: AADWARF64).
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace spanfold {

// The canonical frame address: the stack pointer of the caller.
enum class Cfa : std::uint8_t {
  kNone = 0,          // nothing is known here: between functions, or the file says nothing of them
  kBottom,            // the outermost frame: it has no return address
  kUnsupported,       // something is known that a rule cannot say
  kStackPointer,      // stack pointer + offset
  kFramePointer,      // frame pointer + offset
  kRegister,          // register `reg` + offset: known of the innermost frame only
  kStackPointerSlot,  // *(stack pointer + slot) + offset
  kFramePointerSlot,  // *(frame pointer + slot) + offset
  kPlt,               // stub of a procedure linkage table, x86-64: stack pointer + 8, and 8 more from `offset` on in 16
  kSignal,            // x86-64: registers at stack pointer + offset (rsp), + slot (rbp), + ra_offset (rip)
};

// Where the caller's frame pointer is (rbp, x29).
enum class SavedFramePointer : std::uint8_t {
  kSame = 0,   // it is unchanged
  kAtCfa,      // *(CFA + fp_offset)
  kAtPointer,  // *(frame pointer + fp_offset)
  kUndefined,  // nobody knows
};

// Where the return address is.
enum class ReturnAddress : std::uint8_t {
  kAtCfa = 0,   // *(CFA + ra_offset); x86-64: -8 always
  kInRegister,  // arm64's x30: known of the innermost frame only
};

struct UnwindRule {
  Cfa cfa = Cfa::kNone;
  SavedFramePointer frame_pointer = SavedFramePointer::kSame;
  ReturnAddress return_address = ReturnAddress::kAtCfa;
  std::uint8_t reg = 0;  // of kRegister; of kStackPointer and kFramePointer one of these:
  // The function goes to another stack: the frame pointer may be of one, and is zero where no caller is to be found. Of
  // kStackPointer: there is no frame, and the rule holds for the innermost frame only.
  static constexpr std::uint8_t kSwitches = 1;
  // The caller did not call, it was interrupted: its address is that of an instruction (kStackPointer).
  static constexpr std::uint8_t kInterrupted = 2;
  std::int32_t offset = 0;     // bytes
  std::int32_t slot = 0;       // bytes
  std::int32_t fp_offset = 0;  // bytes
  std::int32_t ra_offset = 0;  // bytes
  auto operator<=>(const UnwindRule&) const = default;
};

// Of code that keeps frame pointers (x86-64): saved one and return address stand where it points.
constexpr UnwindRule kFramePointerRule{.cfa = Cfa::kFramePointer,
                                       .frame_pointer = SavedFramePointer::kAtCfa,
                                       .offset = 16,
                                       .fp_offset = -16,
                                       .ra_offset = -8};

// From `start` on, up to the next row.
struct UnwindRow {
  std::uint32_t start = 0;  // bytes after the table's base
  std::uint32_t rule = 0;   // index in the table's rules
  auto operator<=>(const UnwindRow&) const = default;
};

// The rules of one file (or vDSO). Rows are sorted by start, neighbours differ in their rule, and the last one is the
// end of what is known: its rule is kNone.
struct UnwindTable {
  std::uint64_t base = 0;  // ELF virtual address
  std::vector<UnwindRow> rows;
  std::vector<UnwindRule> rules;  // distinct; [0] is kNone
  std::uint64_t unsupported_rows = 0;
  std::uint64_t left_out = 0;  // descriptions of functions that could not be read, or found no room: they have no rows
};

}  // namespace spanfold
