// SPDX-License-Identifier: Apache-2.0
// When spans were on threads: stays out of all files and windows, put together again and added up by group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "report/recording.h"

namespace spanfold::report {

struct Times {
  std::uint64_t start_unix_nano = 0, end_unix_nano = 0;
  std::uint64_t on_thread_ns = 0;  // over all threads
  std::uint64_t stays = 0;
};

// Earliest start, latest end, sums of the rest.
void add_up(std::optional<Times>& sum, const Times& times);

struct GroupTimes {
  std::uint32_t number = 0;          // of the group
  std::uint32_t begin = 0, end = 0;  // in the order of SpanTimes
  Times times;
  bool ended = false;  // of a group of one span: its last stay is of a window in which it ended
};

inline constexpr std::uint32_t kNoGroup = UINT32_MAX;

class SpanTimes {
 public:
  SpanTimes() = default;
  // `groups` has a number, or kNoGroup, for each of the recording's stays. Memory: 8 bytes a stay, 56 a group.
  SpanTimes(const Recording& recording, const std::vector<std::uint32_t>& groups);

  [[nodiscard]] const std::vector<GroupTimes>& groups() const { return groups_; }  // by number
  // Places in Recording::stays; at least one.
  [[nodiscard]] std::span<const std::uint32_t> stays_of(const GroupTimes& group) const {
    return std::span(order_).subspan(group.begin, group.end - group.begin);
  }

 private:
  std::vector<std::uint32_t> order_;  // places in Recording::stays, by group and span
  std::vector<GroupTimes> groups_;
};

}  // namespace spanfold::report
