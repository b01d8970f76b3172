// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <random>
#include <set>

#include "profile/text.h"

namespace spanfold::profile {
namespace {

bool is_valid(std::string_view text) {
  while (!text.empty()) {
    const Rune rune = decode_rune(text);
    if (rune.length == 0) return false;
    text.remove_prefix(rune.length);
  }
  return true;
}

}  // namespace

TEST_CASE("runes at the edges of UTF-8") {
  CHECK(decode_rune("\x7f").value == 0x7f);
  CHECK(decode_rune("\xc2\x80").value == 0x80);
  CHECK(decode_rune("\xdf\xbf").value == 0x7ff);
  CHECK(decode_rune("\xe0\xa0\x80").value == 0x800);
  CHECK(decode_rune("\xed\x9f\xbf").value == 0xd7ff);
  CHECK(decode_rune("\xef\xbf\xbf").value == 0xffff);
  CHECK(decode_rune("\xf0\x90\x80\x80").value == 0x10000);
  CHECK(decode_rune("\xf4\x8f\xbf\xbf").value == 0x10ffff);
  for (const char* bad : {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf",
                          "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc2", "\xe2\x82",
                          "\xf0\x90\x80", "\xc2\x41", "\xe2\x41\x80"}) {
    CHECK_MESSAGE(decode_rune(bad).length == 0, bad);
  }
  CHECK(decode_rune("").length == 0);
}

TEST_CASE("invalid bytes become escapes, the rest stays") {
  CHECK(to_valid_utf8("parse_date(std::string const&)") == "parse_date(std::string const&)");
  CHECK(to_valid_utf8("bad\xff\xc0name") == "bad\\xff\\xc0name");
  CHECK(to_valid_utf8("caf\xe9") == "caf\\xe9");     // Latin-1
  CHECK(to_valid_utf8("\xe2\x82") == "\\xe2\\x82");  // a cut rune
  CHECK(to_valid_utf8("h\u00e9 \u20ac") == "h\u00e9 \u20ac");
  CHECK(to_valid_utf8("a\nb\x01;") == "a\nb\x01;");
  CHECK(to_valid_utf8("C:\\dir\\y") == "C:\\dir\\y");
  CHECK(to_valid_utf8("\\xff") == "\\x5cxff");
  CHECK(to_valid_utf8("\\\xff") == "\\\\xff");
  CHECK(to_valid_utf8(std::string("\0", 1)) == std::string("\0", 1));
}

TEST_CASE("escapes give the bytes back, and different bytes stay different") {
  std::mt19937 random(7);
  std::set<std::string> inputs, outputs;
  constexpr std::string_view kAlphabet = "\\x5cf0\xff\xe2\x82\xac;\n";
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes;
    for (auto left = random() % 9; left > 0; --left) bytes += kAlphabet[random() % kAlphabet.size()];
    const std::string text = to_valid_utf8(bytes);
    REQUIRE(is_valid(text));
    REQUIRE(restore_bytes(text) == bytes);
    inputs.insert(bytes);
    outputs.insert(text);
  }
  CHECK(inputs.size() == outputs.size());
}

TEST_CASE("long strings are cut between runes and stay distinct") {
  const std::string euros = [] {
    std::string text;
    for (int left = 0; left < 3000; ++left) text += "\u20ac";
    return text;
  }();
  const std::string cut = to_valid_utf8(euros);
  CHECK(cut.size() <= kMaxStringBytes);
  CHECK(is_valid(cut));
  CHECK(cut.find("\u2026") != std::string::npos);
  CHECK(cut != to_valid_utf8(euros + "x"));
  CHECK(to_valid_utf8(std::string(kMaxStringBytes, 'a')) == std::string(kMaxStringBytes, 'a'));
  CHECK(to_valid_utf8(std::string(kMaxStringBytes + 1, 'a')).size() == kMaxStringBytes);
  const std::string escapes = to_valid_utf8(std::string(5000, '\xff'));
  CHECK(escapes.size() <= kMaxStringBytes);
  CHECK(escapes.substr(0, escapes.find("\u2026")).size() % 4 == 0);
  CHECK(is_valid(to_valid_utf8(std::string(100'000, '\xe2'), 10)));
}

}  // namespace spanfold::profile
