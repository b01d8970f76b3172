// SPDX-License-Identifier: Apache-2.0
#include "report/accounting.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "profile/accounting.h"

namespace spanfold::report {
namespace {

using profile::Accounting;

constexpr std::array<std::pair<std::string_view, std::uint64_t Accounting::*>, 7> kFigures = {
    {{profile::kTicksKey, &Accounting::ticks},
     {profile::kInSpanKey, &Accounting::in_span},
     {profile::kBackgroundKey, &Accounting::background},
     {profile::kIdleKey, &Accounting::idle},
     {profile::kFilteredKey, &Accounting::filtered},
     {profile::kMissedKey, &Accounting::missed},
     {profile::kUnsampledKey, &Accounting::unsampled}}};

}  // namespace

void add_accounting(const Tables::Attribute& attribute, Recording& into) {
  if (!attribute.value.number) return;
  const auto value = static_cast<std::uint64_t>(*attribute.value.number);
  Accounting accounting;
  const auto* figure =
      std::find_if(kFigures.begin(), kFigures.end(), [&](const auto& known) { return known.first == attribute.key; });
  if (figure != kFigures.end()) {
    accounting.*(figure->second) = value;
  } else if (attribute.key == profile::kRecursionMissesKey) {
    accounting.recursion_misses = value;
  } else if (attribute.key.starts_with(profile::kDroppedPrefix)) {
    accounting.dropped[std::string(attribute.key.substr(profile::kDroppedPrefix.size()))] = value;
  } else {
    if (attribute.key == profile::kFrequencyKey) into.add_frequency(static_cast<std::uint32_t>(value));
    return;
  }
  if (!into.accounting) into.accounting.emplace();
  *into.accounting += accounting;
}

}  // namespace spanfold::report
