// SPDX-License-Identifier: Apache-2.0
#include "report/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "base/utf8.h"

namespace spanfold::report {
namespace {

struct Range {
  char32_t first, last;
};

template <std::size_t N>
bool is_in(const std::array<Range, N>& ranges, char32_t rune) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [rune](const Range& range) { return range.first <= rune && rune <= range.last; });
}

// Controls, line and paragraph separators, marks and overrides of direction, invisible joiners, the byte order mark.
constexpr std::array<Range, 8> kUnsafe = {{{0, 0x1f},
                                           {0x7f, 0x9f},
                                           {0x61c, 0x61c},
                                           {0x200b, 0x200f},
                                           {0x2028, 0x202e},
                                           {0x2060, 0x206f},
                                           {0xfeff, 0xfeff},
                                           {0xfff9, 0xfffb}}};
// The blocks of combining marks, and of characters two columns wide (Unicode's East Asian Width, coarsely).
constexpr std::array<Range, 6> kCombining = {
    {{0x300, 0x36f}, {0x483, 0x489}, {0x591, 0x5bd}, {0x1ab0, 0x1aff}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}}};
constexpr std::array<Range, 8> kWide = {{{0x1100, 0x115f},
                                         {0x2e80, 0x303e},
                                         {0x3041, 0xa4cf},
                                         {0xac00, 0xd7a3},
                                         {0xf900, 0xfaff},
                                         {0xfe30, 0xfe6f},
                                         {0xff00, 0xff60},
                                         {0x1f300, 0x3fffd}}};

std::size_t columns_of(char32_t rune) {
  if (is_in(kCombining, rune)) return 0;
  return is_in(kWide, rune) ? 2 : 1;
}

std::size_t columns_from_environment() {
  const char* text = std::getenv("COLUMNS");
  if (text == nullptr) return 0;
  const std::string_view digits = text;
  std::size_t width = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), width);
  return parsed.ptr == digits.data() + digits.size() ? width : 0;
}

}  // namespace

Style style_of(int fd) {
  Style style;
  style.width = columns_from_environment();
  if (::isatty(fd) != 1) return style;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  style.color = (no_color == nullptr || *no_color == '\0') && (term == nullptr || std::string_view(term) != "dumb");
  winsize size{};
  if (style.width == 0 && ::ioctl(fd, TIOCGWINSZ, &size) == 0) style.width = size.ws_col;
  return style;
}

std::string printable(std::string_view text) {
  std::string safe;
  while (!text.empty()) {
    const Rune rune = decode_rune(text);
    if (rune.length == 0) {
      append_escaped_byte(safe, static_cast<unsigned char>(text.front()));
    } else if (is_in(kUnsafe, rune.value)) {
      safe += fmt::format("\\u{{{:x}}}", static_cast<std::uint32_t>(rune.value));
    } else {
      safe += text.substr(0, rune.length);
    }
    text.remove_prefix(rune.length == 0 ? 1 : rune.length);
  }
  return safe;
}

std::size_t columns(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const Rune rune = decode_rune(text);
    width += columns_of(rune.value);
    text.remove_prefix(rune.length == 0 ? 1 : rune.length);
  }
  return width;
}

std::string fit(std::string_view text, std::size_t width) {
  if (width == 0 || columns(text) <= width) return std::string(text);
  std::size_t used = 1;  // the mark
  std::size_t at = 0;
  while (at < text.size()) {
    const Rune rune = decode_rune(text.substr(at));
    used += columns_of(rune.value);
    if (used > width) break;
    at += rune.length == 0 ? 1 : rune.length;
  }
  return std::string(text.substr(0, at)) + "…";
}

}  // namespace spanfold::report
