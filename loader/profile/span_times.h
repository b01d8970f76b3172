// SPDX-License-Identifier: Apache-2.0
// The times of spans as a profile of their own: its names, and what is put in order before it is written.
//
// sample_type and period_type are span_thread_time/nanoseconds, period is 1. One sample a span: its link, no stack,
// `values` = the lengths of its stays on threads, `timestamps_unix_nano` = their begins, both of the same count, sorted
// by begin, within the window of the profile. The last stay of a span may be cut in two, see kEndMarkNs in stays.h.
// Attribute of the profile (int64), so that it costs a span nothing:
//   spanfold.ended   1: the spans of this profile ended within its window; 0: they go on, or nobody saw their ends
#pragma once

#include <deque>
#include <string_view>
#include <vector>

#include "profile/model.h"

namespace spanfold::profile {

inline constexpr std::string_view kSpanTimeType = "span_thread_time";
inline constexpr std::string_view kEndedKey = "spanfold.ended";

// Whether there is anything of it to write.
[[nodiscard]] bool has_stays(const SpanTime& time);

// Puts `times` in the order of their spans. Where one span is there twice, or a list is not as Stays::list() makes it,
// `made` gets what stands for it.
void arrange(std::vector<const SpanTime*>& times, std::deque<SpanTime>& made);

// Cut at the window, but never to nothing: at least 1 ns is left, at its edge if need be.
[[nodiscard]] Stay cut_at(const Window& window, Stay stay);

// What a window lasts in a file: at least 1 ns.
[[nodiscard]] std::uint64_t written_duration_ns(const Window& window);

}  // namespace spanfold::profile
