// SPDX-License-Identifier: Apache-2.0
// One perf cpu-clock event a CPU: what makes the tick program run, and the clock that says how often it should have.
#pragma once

#include <cstdint>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace spanfold::bpf {

class ClockEvents {
 public:
  // Opens an event of `frequency_hz` on each of `cpus` (empty: all online), bound to the program `program_fd`, not yet
  // running. CPUs that are offline are skipped. Errors carry the sysctls that matter and end with exit code 3.
  static Result<ClockEvents> open(std::uint32_t frequency_hz, const std::vector<int>& cpus, int program_fd);

  Status enable();
  void disable();
  // From now on at another rate, on all CPUs; each clock begins a period anew. An error leaves the CPUs behind the one
  // that refused at the rate of before, and owed() right.
  Status set_frequency(std::uint32_t frequency_hz);
  // Ticks that all clocks have owed since they were enabled, at whatever rate was in force. Cheap enough for each flush
  // (one read a CPU).
  [[nodiscard]] std::uint64_t owed() const;
  [[nodiscard]] std::size_t cpus() const { return events_.size(); }

 private:
  struct Event {
    Fd fd;
    std::uint64_t period_ns = 0;
    std::uint64_t since_ns = 0;  // what the event's own clock showed when the period began to be in force
  };
  Status set_period(Event& event, std::uint64_t period_ns);

  std::vector<Event> events_;
  std::uint64_t owed_before_ = 0;  // at the periods of before
  bool running_ = false;
};

}  // namespace spanfold::bpf
