// SPDX-License-Identifier: Apache-2.0
#include "profile/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "profile/hash.h"

namespace spanfold::profile {
namespace {

constexpr std::string_view kCutMark = "…";
constexpr std::size_t kCutTailBytes = kCutMark.size() + 16;
constexpr std::size_t kEscapeBytes = 4;  // \xHH

bool is_plain_ascii(std::string_view bytes) {
  return std::none_of(bytes.begin(), bytes.end(),
                      [](char byte) { return static_cast<signed char>(byte) < 0 || byte == '\\'; });
}

std::optional<std::uint8_t> hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return static_cast<std::uint8_t>(digit - '0');
  if (digit >= 'a' && digit <= 'f') return static_cast<std::uint8_t>(digit - 'a' + 10);
  return std::nullopt;
}

// `text` without what lies beyond `cap`, with a tail that tells it from all others that begin alike. `units` holds the
// offsets at which a rune or escape begins.
std::string cut(std::string text, const std::vector<std::size_t>& units, std::string_view bytes, std::size_t cap) {
  const std::size_t room = cap > kCutTailBytes ? cap - kCutTailBytes : 0;
  const auto beyond = std::upper_bound(units.begin(), units.end(), room);
  text.resize(beyond == units.begin() ? 0 : *(beyond - 1));
  // A fixed seed: the same name has the same text in every recording.
  return text + std::string(kCutMark) + fmt::format("{:016x}", Hasher({}).bytes(bytes).result().low);
}

}  // namespace

std::string to_valid_utf8(std::string_view bytes, std::size_t cap) {
  if (bytes.size() <= cap && is_plain_ascii(bytes)) return std::string(bytes);
  std::string text;
  std::vector<std::size_t> units;
  for (std::size_t at = 0; at < bytes.size() && text.size() <= cap;) {
    units.push_back(text.size());
    const std::string_view rest = bytes.substr(at);
    const Rune rune = decode_rune(rest);
    if (rune.length == 0 || rest.starts_with("\\x")) {
      append_escaped_byte(text, static_cast<unsigned char>(rest.front()));
      ++at;
    } else {
      text += rest.substr(0, rune.length);
      at += rune.length;
    }
  }
  return text.size() > cap ? cut(std::move(text), units, bytes, cap) : text;
}

std::string restore_bytes(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    if (rest.size() >= kEscapeBytes && rest.starts_with("\\x")) {
      const auto high = hex_digit(rest[2]);
      const auto low = hex_digit(rest[3]);
      if (high && low) {
        bytes += static_cast<char>(*high << 4 | *low);
        at += kEscapeBytes;
        continue;
      }
    }
    bytes += rest.front();
    ++at;
  }
  return bytes;
}

}  // namespace spanfold::profile
