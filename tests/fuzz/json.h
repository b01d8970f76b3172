// SPDX-License-Identifier: Apache-2.0
// Whether text is JSON (RFC 8259), and whether it is safe on a terminal. Accepts nothing that is not.
#pragma once

#include <string_view>

#include "fuzz/fuzz.h"

namespace spanfold::fuzz {

class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : rest_(text) {}
  bool read() { return value(0) && (eat('\n'), rest_.empty()); }

 private:
  static constexpr int kMostDepth = 16;  // reports have six levels

  bool eat(char wanted) {
    const bool there = !rest_.empty() && rest_.front() == wanted;
    if (there) rest_.remove_prefix(1);
    return there;
  }
  bool word(std::string_view wanted) {
    const bool there = rest_.starts_with(wanted);
    if (there) rest_.remove_prefix(wanted.size());
    return there;
  }
  bool value(int depth) {
    if (rest_.empty() || depth > kMostDepth) return false;
    switch (rest_.front()) {
      case '{': return members(depth, '}', true);
      case '[': return members(depth, ']', false);
      case '"': return string();
      case 't': return word("true");
      case 'f': return word("false");
      default: return number();
    }
  }
  bool members(int depth, char end, bool keys) {
    rest_.remove_prefix(1);
    if (eat(end)) return true;
    do {
      if (keys && (!string() || !eat(':'))) return false;
      if (!value(depth + 1)) return false;
    } while (eat(','));
    return eat(end);
  }
  bool digits() {
    const std::size_t count = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    const bool good = count == 1 || (count > 1 && rest_.front() != '0');
    rest_.remove_prefix(count);
    return good;
  }
  bool number() {
    eat('-');
    if (!digits()) return false;
    if (!eat('.')) return true;
    const std::size_t count = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    rest_.remove_prefix(count);
    return count > 0;
  }
  bool string() {
    if (!eat('"')) return false;
    while (!rest_.empty() && rest_.front() != '"') {
      if (static_cast<unsigned char>(rest_.front()) < 0x20) return false;
      if (!eat('\\')) {
        rest_.remove_prefix(1);
      } else if (eat('u')) {
        if (rest_.size() < 4 || rest_.substr(0, 4).find_first_not_of("0123456789abcdef") != rest_.npos) return false;
        rest_.remove_prefix(4);
      } else if (!eat('"') && !eat('\\')) {
        return false;
      }
    }
    return eat('"');
  }

  std::string_view rest_;
};

inline bool is_json(std::string_view text) { return is_utf8(text) && JsonReader(text).read(); }

// No control character, none that turns the direction of text.
inline bool is_tame(std::string_view text) {
  while (!text.empty()) {
    const Rune rune = decode_rune(text);
    if (rune.length == 0 || rune.value < 0x20 || (rune.value >= 0x7f && rune.value < 0xa0)) return false;
    if (rune.value >= 0x202a && rune.value <= 0x202e) return false;
    text.remove_prefix(rune.length);
  }
  return true;
}

}  // namespace spanfold::fuzz
