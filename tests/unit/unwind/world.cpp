// SPDX-License-Identifier: Apache-2.0
#include "world.h"

#include <dwarf.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace spanfold::unwind::test {

std::uint64_t World::at(std::uint64_t key) const {
  std::uint64_t mixed = (key ^ salt * 0xd6e8feb86659fd93) * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9;
  return (mixed ^ mixed >> 32) & 0x7fff'ffff'fff8;  // an address that a stack could have
}

std::string text_of(const Caller& caller) {
  return fmt::format("known {} bottom {} sp {:x} ra {:x} fp {:x}", caller.is_known, caller.is_bottom,
                     caller.stack_pointer, caller.return_address.value_or(0), caller.frame_pointer.value_or(0));
}

std::string text_of(const Rule& rule) {
  return fmt::format("cfa {} reg {} offset {} slot {} fp {} {} ra {} {}", static_cast<int>(rule.cfa), rule.reg,
                     rule.offset, rule.slot, static_cast<int>(rule.frame_pointer), rule.fp_offset,
                     static_cast<int>(rule.return_address), rule.ra_offset);
}

namespace {

std::uint64_t frame_of(const Rule& rule, const Machine& machine, const World& world, std::uint64_t address) {
  const std::uint64_t sp = world.reg(machine.stack_pointer);
  const std::uint64_t fp = world.reg(machine.frame_pointer);
  switch (rule.cfa) {
    case Cfa::kStackPointer: return sp + rule.offset;
    case Cfa::kFramePointer: return fp + rule.offset;
    case Cfa::kRegister: return world.reg(rule.reg) + rule.offset;
    case Cfa::kStackPointerSlot: return world.memory(sp + rule.slot) + rule.offset;
    case Cfa::kFramePointerSlot: return world.memory(fp + rule.slot) + rule.offset;
    case Cfa::kPlt: return sp + 8 + ((address & 15) >= static_cast<std::uint64_t>(rule.offset) ? 8 : 0);
    default: return 0;
  }
}

}  // namespace

Caller follow(const Rule& rule, const Machine& machine, const World& world, std::uint64_t address) {
  if (rule.cfa == Cfa::kBottom) return {.is_known = true, .is_bottom = true};
  if (rule.cfa == Cfa::kNone || rule.cfa == Cfa::kUnsupported) return {};
  const std::uint64_t sp = world.reg(machine.stack_pointer);
  if (rule.cfa == Cfa::kSignal) {
    return {.is_known = true,
            .stack_pointer = world.memory(sp + rule.offset),
            .return_address = world.memory(sp + rule.ra_offset),
            .frame_pointer = world.memory(sp + rule.slot)};
  }
  Caller caller{.is_known = true, .stack_pointer = frame_of(rule, machine, world, address)};
  caller.return_address = rule.return_address == ReturnAddress::kAtCfa
                              ? world.memory(caller.stack_pointer + rule.ra_offset)
                              : world.reg(machine.return_address);
  const std::uint64_t fp = world.reg(machine.frame_pointer);
  if (rule.frame_pointer == SavedFramePointer::kSame) caller.frame_pointer = fp;
  if (rule.frame_pointer == SavedFramePointer::kAtCfa) {
    caller.frame_pointer = world.memory(caller.stack_pointer + rule.fp_offset);
  }
  if (rule.frame_pointer == SavedFramePointer::kAtPointer) caller.frame_pointer = world.memory(fp + rule.fp_offset);
  return caller;
}

const Rule& rule_at(const Table& table, std::uint64_t address) {
  static const Rule kNothing;
  const auto after = std::upper_bound(table.rows.begin(), table.rows.end(), address - table.base,
                                      [](std::uint64_t offset, const Row& row) { return offset < row.start; });
  return address < table.base || after == table.rows.begin() ? kNothing : table.rules[std::prev(after)->rule];
}

std::uint64_t Reader::fixed(int bytes) {
  std::uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) {
    if (at_end()) throw std::out_of_range("call-frame information ends early");
    value |= std::uint64_t{static_cast<std::uint8_t>(bytes_[at_++])} << (8 * i);
  }
  return value;
}

std::int64_t Reader::fixed_signed(int bytes) {
  const int unused = 64 - 8 * bytes;
  return static_cast<std::int64_t>(fixed(bytes) << unused) >> unused;
}

std::uint64_t Reader::uleb() {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const std::uint64_t byte = fixed(1);
    if (shift < 64) value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

std::int64_t Reader::sleb() {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const std::uint64_t byte = fixed(1);
    if (shift < 64) value |= (byte & 0x7f) << shift;
    if (byte >= 0x80) continue;
    if (byte >= 0x40 && shift + 7 < 64) value -= std::uint64_t{1} << (shift + 7);
    return static_cast<std::int64_t>(value);
  }
}

std::string_view Reader::block(std::uint64_t bytes) {
  if (bytes > bytes_.size() - at_) throw std::out_of_range("a block ends early");
  at_ += bytes;
  return bytes_.substr(at_ - bytes, bytes);
}

std::vector<Operation> decode_expression(std::string_view bytes) {
  std::vector<Operation> operations;
  Reader reader(bytes);
  while (!reader.at_end()) {
    Operation each{.atom = static_cast<std::uint8_t>(reader.fixed(1))};
    if (each.atom >= DW_OP_breg0 && each.atom <= DW_OP_breg31) each.first = static_cast<std::uint64_t>(reader.sleb());
    if (each.atom == DW_OP_bregx) {
      each.first = reader.uleb();
      each.second = static_cast<std::uint64_t>(reader.sleb());
    }
    if (each.atom == DW_OP_plus_uconst || each.atom == DW_OP_constu) each.first = reader.uleb();
    if (each.atom == DW_OP_consts) each.first = static_cast<std::uint64_t>(reader.sleb());
    // The fixed ones come in pairs, unsigned and signed, of 1, 2, 4 and 8 bytes.
    if (each.atom >= DW_OP_const1u && each.atom <= DW_OP_const8s) {
      const int bytes_of_it = 1 << (each.atom - DW_OP_const1u) / 2;
      const bool is_signed = (each.atom - DW_OP_const1u) % 2 == 1;
      each.first = is_signed ? static_cast<std::uint64_t>(reader.fixed_signed(bytes_of_it)) : reader.fixed(bytes_of_it);
    }
    operations.push_back(each);
  }
  return operations;
}

std::optional<std::uint64_t> evaluate(const std::vector<Operation>& expression, const World& world,
                                      std::uint64_t address, const Machine& machine, std::uint64_t frame,
                                      bool is_pushed) {
  std::vector<std::uint64_t> stack;
  if (is_pushed) stack.push_back(frame);
  const auto reg = [&](std::uint64_t number) {
    return !machine.is_arm64 && number == machine.return_address ? address : world.reg(number);
  };
  const auto pop = [&] {
    const std::uint64_t top = stack.empty() ? 0 : stack.back();
    if (!stack.empty()) stack.pop_back();
    return top;
  };
  for (const Operation& each : expression) {
    if (each.atom >= DW_OP_lit0 && each.atom <= DW_OP_lit31) {
      stack.push_back(each.atom - DW_OP_lit0);
    } else if (each.atom >= DW_OP_breg0 && each.atom <= DW_OP_breg31) {
      stack.push_back(reg(each.atom - DW_OP_breg0) + each.first);
    } else if (each.atom == DW_OP_bregx) {
      stack.push_back(reg(each.first) + each.second);
    } else if (each.atom == DW_OP_call_frame_cfa) {
      stack.push_back(frame);
    } else if (each.atom == DW_OP_plus_uconst) {
      stack.push_back(pop() + each.first);
    } else if (each.atom == DW_OP_deref) {
      stack.push_back(world.memory(pop()));
    } else if (each.atom >= DW_OP_const1u && each.atom <= DW_OP_consts) {
      stack.push_back(each.first);
    } else if (each.atom == DW_OP_plus || each.atom == DW_OP_minus || each.atom == DW_OP_and ||
               each.atom == DW_OP_shl || each.atom == DW_OP_ge || each.atom == DW_OP_mul) {
      const std::uint64_t right = pop();
      const std::uint64_t left = pop();
      const bool is_ge = static_cast<std::int64_t>(left) >= static_cast<std::int64_t>(right);
      stack.push_back(each.atom == DW_OP_plus    ? left + right
                      : each.atom == DW_OP_minus ? left - right
                      : each.atom == DW_OP_and   ? left & right
                      : each.atom == DW_OP_shl   ? left << (right & 63)
                      : each.atom == DW_OP_mul   ? left * right
                                                 : static_cast<std::uint64_t>(is_ge));
    } else if (each.atom != DW_OP_nop && each.atom != DW_OP_stack_value) {
      return {};
    }
  }
  if (stack.empty()) return {};
  return stack.back();
}

}  // namespace spanfold::unwind::test
