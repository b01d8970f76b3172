// SPDX-License-Identifier: Apache-2.0
// The accounting as text, and the names it has as attributes of a Profile.
//
// Attributes (int64, one set on exactly one profile of each message, each a difference since the message before):
//   spanfold.ticks = spanfold.in_span + .background + .idle + .filtered + the sum of spanfold.dropped.<reason>
//   spanfold.missed         ticks that the clock owed and no program saw; not part of the sum
//   spanfold.recursion_misses   runs of the hooks on the context map that the kernel skipped; absent without hooks
//   spanfold.unsampled      times that a span left a thread without having had a sample there; absent where none
//   spanfold.frequency_hz   samples a second on each CPU; not a difference
// Reasons that dropped nothing are absent. Where they are: on the first on-CPU profile.
#pragma once

#include <string>
#include <string_view>

#include "profile/model.h"

namespace spanfold::profile {

inline constexpr std::string_view kTicksKey = "spanfold.ticks";
inline constexpr std::string_view kInSpanKey = "spanfold.in_span";
inline constexpr std::string_view kBackgroundKey = "spanfold.background";
inline constexpr std::string_view kIdleKey = "spanfold.idle";
inline constexpr std::string_view kFilteredKey = "spanfold.filtered";
inline constexpr std::string_view kMissedKey = "spanfold.missed";
inline constexpr std::string_view kDroppedPrefix = "spanfold.dropped.";
inline constexpr std::string_view kRecursionMissesKey = "spanfold.recursion_misses";
inline constexpr std::string_view kUnsampledKey = "spanfold.unsampled";
inline constexpr std::string_view kFrequencyKey = "spanfold.frequency_hz";

// "ticks 4950 = in span 3100 + background 840 + idle 1000 + dropped 10 (ring_full 10); missed 3". Filtered and
// recursion misses show only where they are not 0.
[[nodiscard]] std::string describe(const Accounting& accounting);

}  // namespace spanfold::profile
