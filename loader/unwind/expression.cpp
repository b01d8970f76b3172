// SPDX-License-Identifier: Apache-2.0
#include "unwind/expression.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "unwind/cursor.h"

namespace spanfold::unwind {
namespace {

// DWARF 5, 7.7.1.
enum Operation : std::uint8_t {
  kDeref = 0x06,
  kConst1u = 0x08,
  kConst1s = 0x09,
  kConst2u = 0x0a,
  kConst2s = 0x0b,
  kConst4u = 0x0c,
  kConst4s = 0x0d,
  kConstU = 0x10,
  kConstS = 0x11,
  kAnd = 0x1a,
  kMinus = 0x1c,
  kPlus = 0x22,
  kPlusUconst = 0x23,
  kShl = 0x24,
  kGe = 0x2a,
  kLit0 = 0x30,
  kLit31 = 0x4f,
  kBreg0 = 0x70,
  kBreg31 = 0x8f,
  kBregx = 0x92,
  kNop = 0x96,
};

// A register and what is added to it.
struct Linear {
  std::uint16_t reg = 0;
  std::int64_t offset = 0;
};

std::optional<Linear> read_register(Cursor& cursor) {
  const auto operation = cursor.number<std::uint8_t>();
  std::uint64_t reg = operation - kBreg0;
  if (operation == kBregx) {
    reg = cursor.uleb();
  } else if (operation < kBreg0 || operation > kBreg31) {
    return {};
  }
  const std::int64_t offset = cursor.sleb();
  if (!cursor.good() || reg >= kNoRegister) return {};
  return Linear{static_cast<std::uint16_t>(reg), offset};
}

// The number that an operation pushes.
std::optional<std::int64_t> read_constant(Cursor& cursor, std::uint8_t operation) {
  switch (operation) {
    case kConst1u: return cursor.number<std::uint8_t>();
    case kConst1s: return cursor.number<std::int8_t>();
    case kConst2u: return cursor.number<std::uint16_t>();
    case kConst2s: return cursor.number<std::int16_t>();
    case kConst4u: return cursor.number<std::uint32_t>();
    case kConst4s: return cursor.number<std::int32_t>();
    case kConstU: return static_cast<std::int64_t>(cursor.uleb());
    case kConstS: return cursor.sleb();
    default:
      if (operation < kLit0 || operation > kLit31) return {};
      return operation - kLit0;
  }
}

// Adds up what stands before the end, or before a DW_OP_deref, which is passed over. False where there is anything
// else.
bool read_sum(Cursor& cursor, std::int64_t& sum, bool& has_deref) {
  has_deref = false;
  while (!cursor.at_end() && !has_deref) {
    const auto operation = cursor.number<std::uint8_t>();
    bool too_large = false;
    if (operation == kDeref) {
      has_deref = true;
    } else if (operation == kPlusUconst) {
      too_large = __builtin_add_overflow(sum, static_cast<std::int64_t>(cursor.uleb()), &sum);
    } else if (operation != kNop) {
      const auto constant = read_constant(cursor, operation);
      const auto then = cursor.number<std::uint8_t>();
      if (!constant || (then != kPlus && then != kMinus)) return false;
      too_large =
          then == kPlus ? __builtin_add_overflow(sum, *constant, &sum) : __builtin_sub_overflow(sum, *constant, &sum);
    }
    if (too_large || !cursor.good()) return false;
  }
  return true;
}

// What linkers for x86-64 write of a procedure linkage table, whose entries are 16 bytes long and push a number on the
// way: rsp + 8 + (((rip & 15) >= N) << 3). N is 11; 9 or 10 where entries begin with endbr64.
std::optional<std::int64_t> push_in_plt(std::string_view expression) {
  constexpr std::array<std::uint8_t, 6> kBefore = {kBreg0 + 7, 8, kBreg0 + 16, 0, kLit0 + 15, kAnd};
  constexpr std::array<std::uint8_t, 4> kAfter = {kGe, kLit0 + 3, kShl, kPlus};
  if (expression.size() != std::size(kBefore) + 1 + std::size(kAfter)) return {};
  const auto is_byte = [](std::uint8_t wanted, char found) { return wanted == static_cast<std::uint8_t>(found); };
  const std::string_view after = expression.substr(std::size(kBefore) + 1);
  if (!std::equal(std::begin(kBefore), std::end(kBefore), expression.begin(), is_byte)) return {};
  if (!std::equal(std::begin(kAfter), std::end(kAfter), after.begin(), is_byte)) return {};
  const auto literal = static_cast<std::uint8_t>(expression[std::size(kBefore)]);
  if (literal < kLit0 || literal > kLit0 + 15) return {};
  return literal - kLit0;
}

}  // namespace

FrameAddress frame_of_expression(std::string_view expression, const Machine& machine) {
  if (!machine.is_arm64) {
    if (const auto push = push_in_plt(expression)) return {.kind = FrameAddress::Kind::kPlt, .offset = *push};
  }
  Cursor cursor(expression);
  auto linear = read_register(cursor);
  bool has_deref = false;
  if (!linear || !read_sum(cursor, linear->offset, has_deref)) return {};
  if (!has_deref) return {.kind = FrameAddress::Kind::kRegister, .reg = linear->reg, .offset = linear->offset};
  std::int64_t offset = 0;
  if (!read_sum(cursor, offset, has_deref) || has_deref) return {};
  return {.kind = FrameAddress::Kind::kSlot, .reg = linear->reg, .slot = linear->offset, .offset = offset};
}

Place place_of_expression(std::string_view expression) {
  constexpr Place kUnknown{.kind = Place::Kind::kUnknown};
  Cursor cursor(expression);
  const bool by_frame = !expression.empty() && (static_cast<std::uint8_t>(expression[0]) < kBreg0);
  const auto linear = by_frame ? Linear{} : read_register(cursor);
  bool has_deref = false;
  if (!linear) return kUnknown;
  std::int64_t offset = linear->offset;
  if (!read_sum(cursor, offset, has_deref) || has_deref) return kUnknown;
  if (by_frame) return {.kind = Place::Kind::kAtFrame, .offset = offset};
  return {.kind = Place::Kind::kAtRegister, .reg = linear->reg, .offset = offset};
}

}  // namespace spanfold::unwind
