// SPDX-License-Identifier: Apache-2.0
// How the hooks fare: what the kernel skipped of them, and how often they run for maps that are not ours.
#pragma once

#include <array>
#include <cstdint>

struct spanfold_bpf;

namespace spanfold::bpf {

// Foreign runs a second, over all CPUs, above which the hooks cost more than they are worth: at some 30 ns each this is
// 0.15 % of a CPU.
inline constexpr std::uint64_t kMostForeignPerSecond = 50'000;

class HookWatch {
 public:
  // Runs that the kernel skipped since the last call, of programs that were hooked all the while: a hook that is
  // preempted blinds its CPU for others (kernels from 5.12 on count that).
  [[nodiscard]] std::uint64_t take_recursion_misses(const spanfold_bpf& skeleton);

  // Foreign runs a second since the last call; 0 at the first.
  [[nodiscard]] std::uint64_t take_foreign_rate(const spanfold_bpf& skeleton);

  // Other programs took over: their counts start at 0.
  void restart() { misses_ = 0; }

 private:
  std::uint64_t misses_ = 0;
  std::uint64_t foreign_ = 0;
  std::uint64_t looked_ns_ = 0;  // boot clock
};

}  // namespace spanfold::bpf
