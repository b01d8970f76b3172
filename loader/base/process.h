// SPDX-License-Identifier: Apache-2.0
// The identity of a process, as the kernel side samples it and as /proc can confirm it.
#pragma once

#include <compare>
#include <cstdint>

namespace spanfold {

// A process through its life: a pid is reused, and the start time survives exec, so all three are needed.
struct ProcessKey {
  std::uint64_t start_boottime_ns = 0;  // of the thread group's leader
  std::uint32_t pid = 0;                // thread group, in the initial pid namespace
  std::uint32_t exec_id = 0;            // grows with each exec
  auto operator<=>(const ProcessKey&) const = default;
};

// What /proc/PID/stat shows of the address space that was sampled (fields startcode, endcode, startstack).
struct ImageTag {
  std::uint64_t start_code = 0;
  std::uint64_t end_code = 0;
  std::uint64_t start_stack = 0;
  bool operator==(const ImageTag&) const = default;
};

}  // namespace spanfold
