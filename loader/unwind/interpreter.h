// SPDX-License-Identifier: Apache-2.0
// Executes call-frame instructions: DWARF 5, 6.4.2 and 7.24, with those of GNU and of arm64. One pass, no allocation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "unwind/cursor.h"
#include "unwind/frame_section.h"
#include "unwind/machine.h"
#include "unwind/state.h"

namespace spanfold::unwind {

// A common information entry: what functions share.
struct Cie {
  std::uint64_t code_alignment = 1;
  std::int64_t data_alignment = 1;
  State initial;
  std::uint32_t offset = 0;  // in its section
  std::uint8_t section = 0;
  std::uint8_t encoding = 0;  // of addresses
  std::uint8_t address_bytes = 8;
  bool has_data = false;  // entries have augmentation data
  bool is_signal_frame = false;
  bool is_readable = false;   // functions that refer to it can be placed
  bool is_supported = false;  // and what is said of them can be understood
};

class Interpreter {
 public:
  explicit Interpreter(const Machine& machine) : machine_(machine) {}

  // The instructions of a CIE itself: they make its initial state. False where they make no sense.
  [[nodiscard]] bool run_initial(Cie& cie, const FrameSection& section, Cursor cursor);

  // The instructions of a function at [begin, end), begin < end. Gives take(address, state) for each address from which
  // on something else may hold, in order, the first at `begin`; `state` is null from where on nothing is understood.
  // `take` returns false to end it. `section` is where `cursor` is and `cie` was.
  template <typename Take>
  void run(const Cie& cie, const FrameSection& section, Cursor cursor, std::uint64_t begin, std::uint64_t end,
           Take take) {
    start(cie, section, begin);
    bool is_news = true;  // at location_, other than what was given last
    while (!cursor.at_end()) {
      advance_ = 0;
      if (!step(cursor, is_news)) {
        take(location_, static_cast<const State*>(nullptr));
        return;
      }
      if (advance_ == 0) continue;
      if (is_news && !take(location_, &state_)) return;
      is_news = false;
      if (advance_ >= end - location_) return;
      location_ += advance_;
    }
    if (is_news) take(location_, &state_);
  }

 private:
  void start(const Cie& cie, const FrameSection& section, std::uint64_t begin);
  // One instruction. False where it, or what it asks for, makes no sense.
  bool step(Cursor& cursor, bool& is_news);
  bool step_location(std::uint8_t operation, Cursor& cursor);
  bool step_frame(std::uint8_t operation, Cursor& cursor);
  bool step_register(std::uint8_t operation, Cursor& cursor);
  bool step_state(std::uint8_t operation, Cursor& cursor);
  bool move(std::uint64_t steps);
  void set(std::uint64_t reg, const Place& place);
  void restore(std::uint64_t reg);
  void say_register(std::uint64_t reg);
  void say_offset(std::uint64_t offset);
  // Times the data alignment. Wraps around: whatever comes of nonsense is nonsense.
  [[nodiscard]] std::int64_t factored(std::uint64_t value) const {
    return static_cast<std::int64_t>(value * static_cast<std::uint64_t>(cie_->data_alignment));
  }
  [[nodiscard]] Place at_frame(std::uint64_t factored_offset) const {
    return {.kind = Place::Kind::kAtFrame, .offset = factored(factored_offset)};
  }

  static constexpr std::size_t kMostRemembered = 16;  // compilers need one or two

  Machine machine_;
  const Cie* cie_ = nullptr;
  const FrameSection* section_ = nullptr;
  State state_;
  std::uint64_t location_ = 0;
  std::uint64_t advance_ = 0;
  std::array<State, kMostRemembered> remembered_;
  std::size_t remembered_count_ = 0;
};

}  // namespace spanfold::unwind
