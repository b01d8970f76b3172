// SPDX-License-Identifier: Apache-2.0
// Writes JSON (RFC 8259) into a string: commas, escapes, valid UTF-8 whatever the input.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace spanfold::report {

class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(std::uint64_t number);
  JsonWriter& value(std::int64_t number);
  // By names of their own: an overload would take texts and whole numbers too.
  JsonWriter& boolean(bool truth);
  JsonWriter& decimal(double number);  // one decimal; finite

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();
  void quote(std::string_view text);

  std::string& out_;
  bool first_ = true;  // nothing stands before in this object or array, or a key does
};

}  // namespace spanfold::report
