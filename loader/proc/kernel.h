// SPDX-License-Identifier: Apache-2.0
// Kernel addresses to frames. The table is read when the first kernel frame is asked for: that costs tens of
// milliseconds, most of them the kernel's own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"
#include "base/frame.h"
#include "proc/interner.h"
#include "proc/kallsyms.h"
#include "proc/kernel_code.h"

namespace spanfold::proc {

class Kernel {
 public:
  struct Located {
    Frame frame;
    std::string_view symbol;  // raw, also where names are not wanted; valid until the next call
  };

  // `names` false: frames have mapping and address only.
  Kernel(Interner& interner, bool names) : interner_(interner), names_(names) {}

  // Addresses become offsets from the first text symbol of the kernel or module: equal on all hosts with this build,
  // and they do not give away where the kernel lies. Where nothing is known to lie at `address`: no mapping, no name.
  // The table is read again when modules or BPF programs came or went, and every minute while addresses are met that
  // lie nowhere. Until then a BPF program has no name once any is known to have gone: its place may be another's.
  [[nodiscard]] Located frame_at(std::uint64_t address, std::uint64_t now_ns = boot_clock_ns());

  void clear();
  [[nodiscard]] std::size_t memory_bytes() const { return symbols_ ? symbols_->memory_bytes() : 0; }
  [[nodiscard]] std::size_t symbol_count() const { return symbols_ ? symbols_->size() : 0; }

  // True for the assembly entry that interrupts and exceptions leave in a kernel stack: the frame behind it did not
  // call, it was interrupted, so its address is exact.
  [[nodiscard]] static bool is_interrupt_entry(std::string_view symbol);
  // True for the outermost functions of a system call: the user's address is then the one behind the instruction.
  [[nodiscard]] static bool is_syscall_entry(std::string_view symbol);

 private:
  void read(std::uint64_t now_ns);
  void read_again_if_needed(const Kallsyms::Found& found, std::uint64_t now_ns);
  const Mapping* mapping_of(const std::string& module);

  Interner& interner_;
  bool names_;
  bool said_hidden_ = false;
  std::uint64_t read_ns_ = 0;  // boot clock, when the table was read
  std::uint64_t read_cost_ns_ = 0;
  std::uint64_t compared_ns_ = 0;  // and when code_ was compared
  KernelCode code_;                // as it was when the table was read
  bool changed_ = false;           // it is not any more
  bool lost_program_ = false;
  std::optional<Kallsyms> symbols_;
  std::map<std::string, const Mapping*, std::less<>> mappings_;
  std::unordered_map<const char*, const std::string*> functions_;  // by where the table keeps the name
};

}  // namespace spanfold::proc
