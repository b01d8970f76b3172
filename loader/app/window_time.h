// SPDX-License-Identifier: Apache-2.0
// Where a window lies in time: two instants of this process's boot clock, and how they, and times of the BPF programs,
// read in Unix time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "profile/model.h"

namespace spanfold::app {

class WindowTime {
 public:
  // `unix` is measured at the window's end: somebody may have set the clock meanwhile, while the length is the boot
  // clock's in any case. `shift_ns`: what the programs' clock is ahead of this process's, other than 0 in a time
  // namespace only.
  constexpr WindowTime(std::uint64_t begin_boot_ns, std::uint64_t end_boot_ns, BootToUnix unix, std::int64_t shift_ns)
      : begin_ns_(begin_boot_ns), end_ns_(std::max(begin_boot_ns, end_boot_ns)), unix_(unix), shift_ns_(shift_ns) {}

  [[nodiscard]] std::uint64_t start_unix_nano() const { return unix_.unix_ns(begin_ns_); }
  [[nodiscard]] std::uint64_t duration_ns() const { return end_ns_ - begin_ns_; }
  // By the programs' clock.
  [[nodiscard]] std::uint64_t end_ns() const { return end_ns_ + static_cast<std::uint64_t>(shift_ns_); }

  // A stay in the programs' time, as it is within the window. One that lies before it came late (a full ring kept it
  // back): it counts as if it had begun with the window, so that no time is lost.
  [[nodiscard]] profile::Stay cut(std::uint64_t begin_ns, std::uint64_t length_ns) const {
    const std::uint64_t own = begin_ns - static_cast<std::uint64_t>(shift_ns_);
    const std::uint64_t begin = std::clamp(own, begin_ns_, end_ns_);
    const bool late = own + length_ns <= begin_ns_;
    const std::uint64_t lost = late || own > begin_ns_ ? 0 : begin_ns_ - own;
    const std::uint64_t length = std::min(length_ns - lost, end_ns_ - begin);
    return {.begin_unix_nano = unix_.unix_ns(begin), .length_ns = std::max<std::uint64_t>(length, 1)};
  }

 private:
  std::uint64_t begin_ns_;
  std::uint64_t end_ns_;
  BootToUnix unix_;
  std::int64_t shift_ns_;
};

}  // namespace spanfold::app
