// SPDX-License-Identifier: Apache-2.0
// Reads the kernel side's counters. They only grow, in two banks that take turns by epoch; a flush is the difference to
// what the same bank showed before.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "base/process.h"
#include "base/result.h"
#include "bpf/events.h"

namespace spanfold::bpf {

class Banks {
 public:
  // Descriptors of the maps `counters` and `processes`; they must outlive this.
  Banks(int counters_fd, int processes_fd);

  // The same maps by other descriptors.
  void use(int counters_fd, int processes_fd);

  // What the bank of `epoch` gathered since it was read last. Call when no program can write it any more: after the
  // epoch was stepped and a grace period went by.
  [[nodiscard]] Result<Bank> read(std::uint32_t epoch);

 private:
  struct Share {
    std::array<std::uint64_t, 2> seen{};  // ticks of each bank at its last read
    bool gone = false;                    // at the last look; forgotten at the next, when nothing can be left to read
  };

  Status read_counters(std::uint32_t bank, Bank& out);
  Status read_shares(std::uint32_t bank, Bank& out);
  void forget_gone();

  int counters_fd_;
  int processes_fd_;
  std::array<std::array<std::uint64_t, 64>, 2> seen_{};
  std::map<ProcessKey, Share> shares_;
};

}  // namespace spanfold::bpf
