// SPDX-License-Identifier: Apache-2.0
// Names come from files that anybody wrote; protobuf strings must be valid UTF-8. Bytes that are not are escaped here.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace spanfold::profile {

// No string of a dictionary or resource is longer, in bytes.
inline constexpr std::size_t kMaxStringBytes = 4096;

// Valid UTF-8 for any bytes:
// - a byte that is no part of a valid rune becomes \xHH (two lower-case hex digits);
// - a backslash before an `x` becomes \x5c, so that escapes can be told from text that looks like one;
// - all else stays as it is, control characters too.
// Different bytes give different text, and restore() gives them back. What would be longer than `cap` bytes is cut
// between runes and escapes and ends in "…" and 16 hex digits of a hash of all the bytes, so it stays distinct.
[[nodiscard]] std::string to_valid_utf8(std::string_view bytes, std::size_t cap = kMaxStringBytes);

// The bytes behind a text that to_valid_utf8() made and did not cut.
[[nodiscard]] std::string restore_bytes(std::string_view text);

}  // namespace spanfold::profile
