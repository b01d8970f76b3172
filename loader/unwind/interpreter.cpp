// SPDX-License-Identifier: Apache-2.0
#include "unwind/interpreter.h"

#include <algorithm>

#include "unwind/expression.h"
#include "unwind/pointer.h"

namespace spanfold::unwind {
namespace {

enum Operation : std::uint8_t {
  // With an operand in the lower six bits.
  kAdvanceLoc = 0x40,
  kOffset = 0x80,
  kRestore = 0xc0,

  kNop = 0x00,
  kSetLoc = 0x01,
  kAdvanceLoc1 = 0x02,
  kAdvanceLoc2 = 0x03,
  kAdvanceLoc4 = 0x04,
  kOffsetExtended = 0x05,
  kRestoreExtended = 0x06,
  kUndefined = 0x07,
  kSameValue = 0x08,
  kRegister = 0x09,
  kRememberState = 0x0a,
  kRestoreState = 0x0b,
  kDefCfa = 0x0c,
  kDefCfaRegister = 0x0d,
  kDefCfaOffset = 0x0e,
  kDefCfaExpression = 0x0f,
  kExpression = 0x10,
  kOffsetExtendedSf = 0x11,
  kDefCfaSf = 0x12,
  kDefCfaOffsetSf = 0x13,
  kValOffset = 0x14,
  kValOffsetSf = 0x15,
  kValExpression = 0x16,
  kMipsAdvanceLoc8 = 0x1d,
  kNegateRaState = 0x2d,  // arm64; SPARC's register windows have the same number
  kGnuArgsSize = 0x2e,
  kGnuNegativeOffsetExtended = 0x2f,
};
constexpr std::uint8_t kOperandBits = 0x3f;

constexpr Place kUnknownPlace{.kind = Place::Kind::kUnknown};

}  // namespace

void Interpreter::start(const Cie& cie, const FrameSection& section, std::uint64_t begin) {
  cie_ = &cie;
  section_ = &section;
  state_ = cie.initial;
  location_ = begin;
  remembered_count_ = 0;
}

bool Interpreter::run_initial(Cie& cie, const FrameSection& section, Cursor cursor) {
  start(cie, section, 0);
  bool is_news = false;
  while (!cursor.at_end()) {
    advance_ = 0;
    if (!step(cursor, is_news) || advance_ != 0) return false;
  }
  cie.initial = state_;
  return true;
}

bool Interpreter::step(Cursor& cursor, bool& is_news) {
  const auto operation = cursor.number<std::uint8_t>();
  const std::uint8_t operand = operation & kOperandBits;
  switch (operation & ~kOperandBits) {
    case kAdvanceLoc: return move(operand);
    case kOffset: set(operand, at_frame(cursor.uleb())); break;
    case kRestore: restore(operand); break;
    default:
      if (operation == kNop) return true;
      if (!step_location(operation, cursor) && !step_frame(operation, cursor) && !step_register(operation, cursor) &&
          !step_state(operation, cursor)) {
        return false;
      }
  }
  if (advance_ == 0) is_news = true;
  return cursor.good();
}

bool Interpreter::move(std::uint64_t steps) {
  if (__builtin_mul_overflow(steps, cie_->code_alignment, &advance_)) advance_ = ~0ULL;
  return true;
}

// These four return false where the operation is none of theirs.
bool Interpreter::step_location(std::uint8_t operation, Cursor& cursor) {
  switch (operation) {
    case kSetLoc: {
      const auto target = read_pointer(cursor, cie_->encoding, cie_->address_bytes, *section_);
      if (!target || *target < location_) return false;
      advance_ = *target - location_;
      return true;
    }
    case kAdvanceLoc1: return move(cursor.number<std::uint8_t>());
    case kAdvanceLoc2: return move(cursor.number<std::uint16_t>());
    case kAdvanceLoc4: return move(cursor.number<std::uint32_t>());
    case kMipsAdvanceLoc8: return move(cursor.number<std::uint64_t>());
    default: return false;
  }
}

bool Interpreter::step_frame(std::uint8_t operation, Cursor& cursor) {
  switch (operation) {
    case kDefCfa:
      say_register(cursor.uleb());
      say_offset(cursor.uleb());
      break;
    case kDefCfaSf:
      say_register(cursor.uleb());
      say_offset(static_cast<std::uint64_t>(factored(static_cast<std::uint64_t>(cursor.sleb()))));
      break;
    case kDefCfaRegister: say_register(cursor.uleb()); break;
    case kDefCfaOffset: say_offset(cursor.uleb()); break;
    case kDefCfaOffsetSf:
      say_offset(static_cast<std::uint64_t>(factored(static_cast<std::uint64_t>(cursor.sleb()))));
      break;
    case kDefCfaExpression:
      state_.frame = frame_of_expression(cursor.block(cursor.uleb()), machine_);
      state_.is_expression = true;
      break;
    default: return false;
  }
  return true;
}

bool Interpreter::step_register(std::uint8_t operation, Cursor& cursor) {
  const bool has_register = (operation >= kOffsetExtended && operation <= kRegister) || operation == kExpression ||
                            operation == kOffsetExtendedSf ||
                            (operation >= kValOffset && operation <= kValExpression) ||
                            operation == kGnuNegativeOffsetExtended;
  if (!has_register) return false;
  const std::uint64_t reg = cursor.uleb();
  switch (operation) {
    case kOffsetExtended: set(reg, at_frame(cursor.uleb())); break;
    case kOffsetExtendedSf: set(reg, at_frame(static_cast<std::uint64_t>(cursor.sleb()))); break;
    case kGnuNegativeOffsetExtended: set(reg, at_frame(0 - cursor.uleb())); break;
    case kRestoreExtended: restore(reg); break;
    case kUndefined: set(reg, {.kind = Place::Kind::kUndefined}); break;
    case kSameValue: set(reg, {.kind = Place::Kind::kSame}); break;
    case kExpression: set(reg, place_of_expression(cursor.block(cursor.uleb()))); break;
    case kValExpression:
      cursor.block(cursor.uleb());
      set(reg, kUnknownPlace);
      break;
    default:  // in another register, or a value and not a place: each has one more number
      cursor.uleb();
      set(reg, kUnknownPlace);
  }
  return true;
}

bool Interpreter::step_state(std::uint8_t operation, Cursor& cursor) {
  switch (operation) {
    case kRememberState:
      if (remembered_count_ == kMostRemembered) return false;
      remembered_[remembered_count_++] = state_;
      return true;
    case kRestoreState:
      if (remembered_count_ == 0) return false;
      state_ = remembered_[--remembered_count_];
      return true;
    case kGnuArgsSize: cursor.uleb(); return true;
    case kNegateRaState:
      return machine_.is_arm64;  // who reads a return address strips its signature, where there is one
    default: return false;
  }
}

void Interpreter::set(std::uint64_t reg, const Place& place) {
  if (reg == machine_.frame_pointer) state_.frame_pointer = place;
  if (reg == machine_.return_address) state_.return_address = place;
}

void Interpreter::restore(std::uint64_t reg) {
  if (reg == machine_.frame_pointer) state_.frame_pointer = cie_->initial.frame_pointer;
  if (reg == machine_.return_address) state_.return_address = cie_->initial.return_address;
}

void Interpreter::say_register(std::uint64_t reg) {
  state_.said_reg = static_cast<std::uint16_t>(std::min(reg, kNoRegister));
  state_.is_expression = false;
  state_.frame = {.kind = FrameAddress::Kind::kRegister, .reg = state_.said_reg, .offset = state_.said_offset};
}

void Interpreter::say_offset(std::uint64_t offset) {
  state_.said_offset = static_cast<std::int64_t>(offset);
  if (!state_.is_expression) state_.frame.offset = state_.said_offset;
}

}  // namespace spanfold::unwind
