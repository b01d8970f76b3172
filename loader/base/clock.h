// SPDX-License-Identifier: Apache-2.0
// Clocks, and the times and sizes that people write. Samples carry the boot clock; files carry Unix time.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace spanfold {

// Nanoseconds since boot, time asleep included (CLOCK_BOOTTIME): the clock of every time that the BPF programs give.
[[nodiscard]] std::uint64_t boot_clock_ns();

// Nanoseconds since 1970 (CLOCK_REALTIME): jumps when somebody sets the clock.
[[nodiscard]] std::uint64_t unix_clock_ns();

// CPU time of this process so far, all threads, user and kernel (CLOCK_PROCESS_CPUTIME_ID).
[[nodiscard]] std::uint64_t process_cpu_ns();

// Translates boot time to Unix time by a difference that is measured once: equal inputs give equal outputs, and the
// distance between two times stays what the boot clock says even when somebody sets the clock meanwhile.
class BootToUnix {
 public:
  // Takes the tightest of a few paired readings: right to within a microsecond on an idle host.
  [[nodiscard]] static BootToUnix now();
  explicit constexpr BootToUnix(std::int64_t offset_ns) : offset_ns_(offset_ns) {}

  // `measured`, unless that is this one within what such a measurement is good to (50 us): so a time that was
  // translated before and one that is translated after still join, and only a clock that somebody set makes a step.
  [[nodiscard]] constexpr BootToUnix renewed(BootToUnix measured) const {
    constexpr std::int64_t kNoiseNs = 50'000;
    const std::int64_t step_ns = measured.offset_ns_ - offset_ns_;
    return step_ns < -kNoiseNs || step_ns > kNoiseNs ? measured : *this;
  }

  [[nodiscard]] constexpr std::uint64_t unix_ns(std::uint64_t boot_ns) const {
    return boot_ns + static_cast<std::uint64_t>(offset_ns_);
  }
  [[nodiscard]] constexpr std::int64_t offset_ns() const { return offset_ns_; }

 private:
  std::int64_t offset_ns_;
};

// "10" (seconds), "500ms", "10s", "5m", "1h", also "2.5s", "100us", "7ns" → nanoseconds. Fails (usage) on anything
// else, on less than a nanosecond that is not zero, and beyond 2^63 - 1 ns.
[[nodiscard]] Result<std::uint64_t> parse_duration_ns(std::string_view text);

// "4096", "10KiB", "64M", "2GiB" → bytes; K, M, G, T with or without iB are powers of 1024, in either case. Fails
// (usage) on anything else and beyond 2^63 - 1 bytes.
[[nodiscard]] Result<std::uint64_t> parse_size_bytes(std::string_view text);

}  // namespace spanfold
