// SPDX-License-Identifier: Apache-2.0
// The samples of one profile into a Recording: what their values mean, and what they add up to.
#pragma once

#include <cstdint>
#include <string_view>

#include "report/recording.h"
#include "report/tables.h"

namespace spanfold::report {

struct ValueType {
  std::string_view type, unit;
};

// What a profile says of all its samples.
struct ProfileHead {
  ValueType sample_type, period_type;
  std::uint64_t period = 0;
  bool ended = false;  // of span times
};

// Samples of a type that is none of ours are left out, and the type noted in Recording::skipped_types. Throws
// Malformed.
void read_samples(std::string_view profile, const ProfileHead& head, std::uint32_t process, Tables& tables,
                  Recording& into);

}  // namespace spanfold::report
