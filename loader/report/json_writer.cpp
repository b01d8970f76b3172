// SPDX-License-Identifier: Apache-2.0
#include "report/json_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace spanfold::report {
namespace {

bool is_plain(char byte) { return byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\'; }

}  // namespace

void JsonWriter::separate() {
  if (!first_) out_ += ',';
  first_ = false;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_ += bracket;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  out_ += bracket;
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  quote(name);
  out_ += ':';
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  quote(text);
  return *this;
}

JsonWriter& JsonWriter::value(std::uint64_t number) {
  separate();
  out_ += fmt::to_string(number);
  return *this;
}

JsonWriter& JsonWriter::value(std::int64_t number) {
  separate();
  out_ += fmt::to_string(number);
  return *this;
}

JsonWriter& JsonWriter::boolean(bool truth) {
  separate();
  out_ += truth ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::decimal(double number) {
  separate();
  out_ += fmt::format("{:.1f}", number);
  return *this;
}

void JsonWriter::quote(std::string_view text) {
  out_ += '"';
  while (!text.empty()) {
    // Nearly all names are runs of plain bytes.
    const auto* special = std::find_if_not(text.begin(), text.end(), is_plain);
    out_.append(text.begin(), special);
    text.remove_prefix(static_cast<std::size_t>(special - text.begin()));
    if (text.empty()) break;
    const Rune rune = decode_rune(text);
    if (rune.length == 0) {
      // No JSON string can hold it: shown as the text \xHH.
      out_ += '\\';
      append_escaped_byte(out_, static_cast<unsigned char>(text.front()));
    } else if (rune.value == '"' || rune.value == '\\') {
      out_ += '\\';
      out_ += text.front();
    } else if (rune.value < 0x20 || rune.value == 0x7f) {
      out_ += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(rune.value));
    } else {
      out_ += text.substr(0, rune.length);
    }
    text.remove_prefix(rune.length == 0 ? 1 : rune.length);
  }
  out_ += '"';
}

}  // namespace spanfold::report
