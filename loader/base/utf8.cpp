// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <array>

namespace spanfold {

Rune decode_rune(std::string_view text) {
  if (text.empty()) return {};
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  // Lead bytes below c2 are continuations or overlong, above f4 beyond U+10FFFF.
  if (lead < 0xc2 || lead > 0xf4) return {};
  const std::uint8_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (text.size() < length) return {};
  char32_t value = lead & (0xff >> (length + 1));
  for (std::size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xc0) != 0x80) return {};
    value = value << 6 | (byte(at) & 0x3f);
  }
  constexpr std::array<char32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kSmallest[length] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) return {};
  return {value, length};
}

void append_escaped_byte(std::string& out, unsigned char byte) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 0xf]};
}

}  // namespace spanfold
