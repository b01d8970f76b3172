// SPDX-License-Identifier: Apache-2.0
// Which of the kernel's code comes and goes: modules and BPF programs. Tells in microseconds whether /proc/kallsyms,
// which takes tens of milliseconds, is worth reading again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spanfold::proc {

// Name, size, state and address of each module, out of the text of /proc/modules (proc(5)): what else stands there
// counts users, and changes all the time.
[[nodiscard]] std::string modules_in(std::string_view proc_modules);

struct KernelCode {
  std::string modules;
  std::vector<std::uint32_t> programs;  // ids, ascending; the kernel gives none a second time
  bool knows_programs = false;          // asking takes CAP_SYS_ADMIN

  [[nodiscard]] static KernelCode now();
  [[nodiscard]] bool operator==(const KernelCode&) const = default;
  // Whether a BPF program went since `before`: another one may lie at its place.
  [[nodiscard]] bool lost_program_of(const KernelCode& before) const;
};

}  // namespace spanfold::proc
