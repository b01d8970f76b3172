// SPDX-License-Identifier: Apache-2.0
// How the hooks fare: what the kernel skipped of them, and how often they run for maps that are not ours.
#pragma once

#include <cstdint>

struct spanfold_bpf;

namespace spanfold::bpf {

// Foreign runs a second, over all CPUs, above which the hooks cost more than they are worth: at some 30 ns each this is
// 0.15 % of a CPU.
inline constexpr std::uint64_t kMostForeignPerSecond = 50'000;

// Runs that the kernel skipped, by flush: a hook that is preempted blinds its CPU for others (kernels from 5.12 on
// count that). The count knows no epochs, so it is read on either side of each step; what falls in between may be of
// both epochs. Counts begin at 0 and only grow.
class HookMisses {
 public:
  struct OfFlush {
    std::uint64_t fresh = 0;  // since the flush before, so that flushes add up
    bool any = false;         // in the epoch that ended, as far as one can tell
  };

  void before_step(std::uint64_t count) { before_ = count; }
  [[nodiscard]] OfFlush after_step(std::uint64_t count);

 private:
  std::uint64_t begin_ = 0;   // before the step that the epoch began with
  std::uint64_t before_ = 0;  // before the step that ends it
  std::uint64_t taken_ = 0;
};

class HookWatch {
 public:
  // Around a step of the epoch; the second one after whatever is to be claimed of the epoch was looked at.
  void before_step(const spanfold_bpf& skeleton);
  [[nodiscard]] HookMisses::OfFlush after_step(const spanfold_bpf& skeleton);

  // Foreign runs a second since the last call; 0 at the first.
  [[nodiscard]] std::uint64_t take_foreign_rate(const spanfold_bpf& skeleton);

  // Other programs took over, whose counts start at 0: what the old ones missed stays counted.
  void replace(const spanfold_bpf& old);

 private:
  HookMisses misses_;
  std::uint64_t replaced_ = 0;  // misses of programs that were replaced
  std::uint64_t foreign_ = 0;
  std::uint64_t looked_ns_ = 0;  // boot clock
};

}  // namespace spanfold::bpf
