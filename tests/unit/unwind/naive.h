// SPDX-License-Identifier: Apache-2.0
// Call-frame information read as the DWARF standard tells it, slowly and by other means than the loader: entries by
// libdw, instructions word by word into maps of registers. And the same asked of libdw alone.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "world.h"

namespace spanfold::unwind::test {

// What is true at an address, and whether it is plain: what every rule must be able to say.
struct Truth {
  Caller caller;
  bool is_plain = false;                 // CFA is a register + offset, the return address is where calls put it
  bool has_plain_frame_pointer = false;  // unchanged, undefined, or at an offset from the CFA
};

struct NaivePlace {
  enum Kind { kUnsaid, kUndefined, kSame, kOffset, kValue, kRegister, kExpression, kValueExpression } kind = kUnsaid;
  std::int64_t number = 0;
  std::string expression;
};

struct NaiveRow {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool has_frame = false;  // by the register and the offset
  std::uint64_t frame_register = 0;
  std::int64_t frame_offset = 0;
  std::string frame_expression;
  std::map<std::uint64_t, NaivePlace> places;
};

struct NaiveFunction {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool is_signal_frame = false;
  bool has_half_frame = false;  // an offset or a register alone after an expression: libgcc reads it, libdw does not
  std::vector<NaiveRow> rows;
};

// An open file with what libdw makes of its call-frame information.
class TrueFile {
 public:
  explicit TrueFile(const std::string& path, bool by_debug_frame = false);
  ~TrueFile();
  TrueFile(const TrueFile&) = delete;
  TrueFile& operator=(const TrueFile&) = delete;

  [[nodiscard]] bool good() const { return cfi_ != nullptr; }
  [[nodiscard]] const Machine& machine() const { return machine_; }

  // Functions of .eh_frame (or .debug_frame) in the order of the file.
  void each_function(const std::function<void(const NaiveFunction&)>& take) const;

  [[nodiscard]] Truth truth_of(const NaiveRow& row, const World& world, std::uint64_t address) const;

  // By libdw; also the part around `address` for which it holds. False where it knows nothing.
  bool ask_libdw(std::uint64_t address, const World& world, Truth& truth, std::uint64_t& begin,
                 std::uint64_t& end) const;

 private:
  int descriptor_ = -1;
  Elf* elf_ = nullptr;
  Dwarf* dwarf_ = nullptr;
  Dwarf_CFI* cfi_ = nullptr;
  bool is_debug_ = false;
  Machine machine_;
  std::string section_;
  std::uint64_t section_address_ = 0;
};

}  // namespace spanfold::unwind::test
