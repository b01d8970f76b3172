// SPDX-License-Identifier: Apache-2.0
// A world of made-up registers and memory in which rules and DWARF's own words are followed, so that the two can be
// compared by what they lead to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "unwind/machine.h"
#include "unwind/rule.h"

namespace spanfold::unwind::test {

// What registers and memory hold: anything, but always the same. `salt` makes another world.
struct World {
  std::uint64_t salt = 1;
  [[nodiscard]] std::uint64_t reg(std::uint64_t number) const { return at(number * 0x10001 + 0x7fff); }
  [[nodiscard]] std::uint64_t memory(std::uint64_t address) const { return at(~address); }

 private:
  [[nodiscard]] std::uint64_t at(std::uint64_t key) const;
};

// Where following the rule of a frame leads. Values are missing where nobody knows them.
struct Caller {
  bool is_known = false;   // false: no rule, or one that says nothing
  bool is_bottom = false;  // the return address is undefined
  std::uint64_t stack_pointer = 0;
  std::optional<std::uint64_t> return_address;
  std::optional<std::uint64_t> frame_pointer;
  bool operator==(const Caller&) const = default;
};
std::string text_of(const Caller& caller);
std::string text_of(const Rule& rule);

// Follows one of our rules; `address` is where the frame is.
Caller follow(const Rule& rule, const Machine& machine, const World& world, std::uint64_t address);

// The rule for an address of the file.
const Rule& rule_at(const Table& table, std::uint64_t address);

// Reads numbers slowly, byte by byte; the bytes are there.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  [[nodiscard]] bool at_end() const { return at_ >= bytes_.size(); }
  [[nodiscard]] std::size_t offset() const { return at_; }
  std::uint64_t fixed(int bytes);
  std::int64_t fixed_signed(int bytes);
  std::uint64_t uleb();
  std::int64_t sleb();
  std::string_view block(std::uint64_t bytes);

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

// One operation of a DWARF expression.
struct Operation {
  std::uint8_t atom = 0;
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};
std::vector<Operation> decode_expression(std::string_view bytes);

// Runs an expression as far as this world knows how to: none where it does not. `frame` is what DW_OP_call_frame_cfa
// gives, and the stack begins with it where `is_pushed`.
std::optional<std::uint64_t> evaluate(const std::vector<Operation>& expression, const World& world,
                                      std::uint64_t address, const Machine& machine, std::uint64_t frame,
                                      bool is_pushed);

}  // namespace spanfold::unwind::test
