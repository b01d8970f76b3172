// SPDX-License-Identifier: Apache-2.0
// UTF-8 (RFC 3629), one code point at a time, and how a byte that is none is shown.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace spanfold {

// One code point at the start of a text.
struct Rune {
  char32_t value = 0;
  std::uint8_t length = 0;  // bytes; 0: the first byte begins no valid rune (overlong, surrogate, cut, above U+10FFFF)
};
[[nodiscard]] Rune decode_rune(std::string_view text);

// "\xHH"; HH as two lower-case hex digits.
void append_escaped_byte(std::string& out, unsigned char byte);

}  // namespace spanfold
