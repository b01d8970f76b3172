// SPDX-License-Identifier: Apache-2.0
#include "profile/model.h"

#include <fmt/format.h>

#include "profile/accounting.h"

namespace spanfold::profile {
std::uint64_t Accounting::dropped_total() const {
  std::uint64_t sum = 0;
  for (const auto& [reason, count] : dropped) sum += count;
  return sum;
}

bool Accounting::adds_up() const { return ticks == in_span + background + idle + filtered + dropped_total(); }

Accounting& Accounting::operator+=(const Accounting& other) {
  ticks += other.ticks;
  in_span += other.in_span;
  background += other.background;
  idle += other.idle;
  filtered += other.filtered;
  missed += other.missed;
  if (other.recursion_misses) recursion_misses = recursion_misses.value_or(0) + *other.recursion_misses;
  unsampled += other.unsampled;
  for (const auto& [reason, count] : other.dropped) dropped[reason] += count;
  return *this;
}

std::string describe(const Accounting& accounting) {
  std::string text = fmt::format("ticks {} = in span {} + background {} + idle {}", accounting.ticks,
                                 accounting.in_span, accounting.background, accounting.idle);
  if (accounting.filtered != 0) text += fmt::format(" + filtered {}", accounting.filtered);
  text += fmt::format(" + dropped {}", accounting.dropped_total());
  std::string reasons;
  for (const auto& [reason, count] : accounting.dropped) {
    if (count != 0) reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", reason, count);
  }
  if (!reasons.empty()) text += fmt::format(" ({})", reasons);
  text += fmt::format("; missed {}", accounting.missed);
  if (accounting.recursion_misses.value_or(0) != 0) {
    text += fmt::format("; recursion misses {}", *accounting.recursion_misses);
  }
  return text;
}

}  // namespace spanfold::profile
