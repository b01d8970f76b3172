// SPDX-License-Identifier: Apache-2.0
#include "report/span_times.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "profile/stays.h"

namespace spanfold::report {
namespace {

// Of the stays of one span: what they come to, and whether the last of them says that it ended.
std::pair<Times, bool> times_of(const Recording& recording, std::span<const std::uint32_t> places) {
  std::vector<profile::StayPiece> pieces;
  pieces.reserve(places.size());
  Times times{.start_unix_nano = recording.stays[places.front()].begin_unix_nano};
  bool ended = false;
  for (const std::uint32_t place : places) {
    const TimedStay& stay = recording.stays[place];
    const std::uint64_t end = stay.end_unix_nano();
    pieces.push_back({stay.begin_unix_nano, end, stay.length_ns});
    if (end > times.end_unix_nano) ended = false;
    if (end >= times.end_unix_nano) ended |= stay.ended;
    times.start_unix_nano = std::min(times.start_unix_nano, stay.begin_unix_nano);
    times.end_unix_nano = std::max(times.end_unix_nano, end);
    times.on_thread_ns += stay.length_ns;
  }
  times.stays = profile::join_close(std::move(pieces)).size();
  return {times, ended};
}

}  // namespace

void add_up(std::optional<Times>& sum, const Times& times) {
  if (!sum) {
    sum = times;
    return;
  }
  sum->start_unix_nano = std::min(sum->start_unix_nano, times.start_unix_nano);
  sum->end_unix_nano = std::max(sum->end_unix_nano, times.end_unix_nano);
  sum->on_thread_ns += times.on_thread_ns;
  sum->stays += times.stays;
}

SpanTimes::SpanTimes(const Recording& recording, const std::vector<std::uint32_t>& groups) {
  for (std::uint32_t place = 0; place < groups.size(); ++place) {
    if (groups[place] != kNoGroup) order_.push_back(place);
  }
  const auto key = [&](std::uint32_t place) { return std::tuple(groups[place], recording.stays[place].span); };
  std::sort(order_.begin(), order_.end(), [&](std::uint32_t left, std::uint32_t right) {
    return std::tuple_cat(key(left), std::tuple(left)) < std::tuple_cat(key(right), std::tuple(right));
  });
  for (std::uint32_t first = 0; first < order_.size();) {
    std::uint32_t next = first + 1;
    while (next < order_.size() && key(order_[next]) == key(order_[first])) ++next;
    const auto [times, ended] = times_of(recording, std::span(order_).subspan(first, next - first));
    const std::uint32_t number = groups[order_[first]];
    if (groups_.empty() || groups_.back().number != number) {
      groups_.push_back({.number = number, .begin = first, .end = next, .times = times, .ended = ended});
    } else {
      std::optional<Times> sum = groups_.back().times;
      add_up(sum, times);
      groups_.back().times = *sum;
      groups_.back().end = next;
    }
    first = next;
  }
}

}  // namespace spanfold::report
