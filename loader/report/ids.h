// SPDX-License-Identifier: Apache-2.0
// Trace and span ids as text.
#pragma once

#include <string>
#include <string_view>

namespace spanfold::report {

// Lower-case hex digits, two for each byte.
template <typename Id>
[[nodiscard]] std::string hex(const Id& id) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const auto byte : id) text += {kDigits[byte >> 4], kDigits[byte & 0xf]};
  return text;
}

}  // namespace spanfold::report
