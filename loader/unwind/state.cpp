// SPDX-License-Identifier: Apache-2.0
#include "unwind/state.h"

#include <limits>

namespace spanfold::unwind {
namespace {

constexpr std::int64_t kReturnAddressAtCall = -8;  // x86-64: what the call instruction pushed

// False where a number is too large for a rule.
bool narrow(std::int64_t wide, std::int32_t& into) {
  into = static_cast<std::int32_t>(wide);
  return into == wide;
}

bool set_frame(const FrameAddress& frame, const Machine& machine, Rule& rule) {
  if (!narrow(frame.offset, rule.offset) || !narrow(frame.slot, rule.slot)) return false;
  const bool by_stack = frame.reg == machine.stack_pointer;
  const bool by_frame = frame.reg == machine.frame_pointer;
  switch (frame.kind) {
    case FrameAddress::Kind::kRegister:
      rule.cfa = by_stack ? Cfa::kStackPointer : by_frame ? Cfa::kFramePointer : Cfa::kRegister;
      if (rule.cfa == Cfa::kRegister) rule.reg = static_cast<std::uint8_t>(frame.reg);
      return frame.reg <= 0xff;
    case FrameAddress::Kind::kSlot:
      rule.cfa = by_stack ? Cfa::kStackPointerSlot : Cfa::kFramePointerSlot;
      return by_stack || by_frame;
    case FrameAddress::Kind::kPlt: rule.cfa = Cfa::kPlt; return !machine.is_arm64;
    case FrameAddress::Kind::kUnknown: break;
  }
  return false;
}

// Memory by a register that the frame address counts from, too, is memory by the frame address.
Place by_frame_address(const Place& place, const FrameAddress& frame) {
  const bool both =
      place.kind == Place::Kind::kAtRegister && frame.kind == FrameAddress::Kind::kRegister && frame.reg == place.reg;
  std::int64_t offset = 0;
  if (!both || __builtin_sub_overflow(place.offset, frame.offset, &offset)) return place;
  return {.kind = Place::Kind::kAtFrame, .offset = offset};
}

bool set_return_address(const Place& place, const Machine& machine, Rule& rule) {
  if (place.kind == Place::Kind::kAtFrame) {
    return narrow(place.offset, rule.ra_offset) && (machine.is_arm64 || place.offset == kReturnAddressAtCall);
  }
  rule.return_address = ReturnAddress::kInRegister;
  return machine.is_arm64 && (place.kind == Place::Kind::kUnsaid || place.kind == Place::Kind::kSame);
}

// A frame pointer that no rule can say leaves a walk that goes on, up to the first frame that needs it.
void set_frame_pointer(const Place& place, const Machine& machine, Rule& rule) {
  rule.frame_pointer = SavedFramePointer::kUndefined;
  if (place.kind == Place::Kind::kUnsaid || place.kind == Place::Kind::kSame) {
    rule.frame_pointer = SavedFramePointer::kSame;
  } else if (place.kind == Place::Kind::kAtFrame && narrow(place.offset, rule.fp_offset)) {
    rule.frame_pointer = SavedFramePointer::kAtCfa;
  } else if (place.kind == Place::Kind::kAtRegister && place.reg == machine.frame_pointer &&
             narrow(place.offset, rule.fp_offset)) {
    rule.frame_pointer = SavedFramePointer::kAtPointer;
  }
  if (rule.frame_pointer == SavedFramePointer::kUndefined) rule.fp_offset = 0;
}

bool set_signal(const State& state, const Machine& machine, Rule& rule) {
  const auto on_stack = [&](const Place& place) {
    return place.kind == Place::Kind::kAtRegister && place.reg == machine.stack_pointer;
  };
  const FrameAddress& frame = state.frame;
  rule.cfa = Cfa::kSignal;
  return !machine.is_arm64 && frame.kind == FrameAddress::Kind::kSlot && frame.reg == machine.stack_pointer &&
         frame.offset == 0 && on_stack(state.frame_pointer) && on_stack(state.return_address) &&
         narrow(frame.slot, rule.offset) && narrow(state.frame_pointer.offset, rule.slot) &&
         narrow(state.return_address.offset, rule.ra_offset);
}

}  // namespace

Rule rule_of(const State& state, const Machine& machine, bool is_signal_frame) {
  if (state.return_address.kind == Place::Kind::kUndefined) return {.cfa = Cfa::kBottom};
  Rule rule;
  if (is_signal_frame) return set_signal(state, machine, rule) ? rule : kUnsupportedRule;
  if (!set_frame(state.frame, machine, rule)) return kUnsupportedRule;
  if (!set_return_address(by_frame_address(state.return_address, state.frame), machine, rule)) return kUnsupportedRule;
  set_frame_pointer(by_frame_address(state.frame_pointer, state.frame), machine, rule);
  return rule;
}

}  // namespace spanfold::unwind
