// SPDX-License-Identifier: Apache-2.0
// The dictionary of one OTLP message, found row by row and read only where a sample leads there.
#pragma once

#include <cstdint>
#include <optional>
#include <protozero/data_view.hpp>
#include <protozero/pbf_reader.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "report/recording.h"

namespace spanfold::report {

// The bytes are not what they should be. Ends at the door of decode(), which makes an Error of it.
class Malformed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Readers of one field that check its wire type first (protozero only asserts it).
[[nodiscard]] std::uint64_t read_varint(protozero::pbf_reader& field);
[[nodiscard]] std::uint64_t read_fixed64(protozero::pbf_reader& field);
[[nodiscard]] std::string_view read_bytes(protozero::pbf_reader& field);
[[nodiscard]] protozero::pbf_reader read_message(protozero::pbf_reader& field);

// Calls `take` with each number of a repeated varint field, packed or not.
template <typename Take>
void for_each_varint(protozero::pbf_reader& field, Take take) {
  if (field.wire_type() == protozero::pbf_wire_type::varint) {
    take(field.get_uint64());
    return;
  }
  const std::string_view packed = read_bytes(field);
  const char* at = packed.data();
  const char* end = at + packed.size();
  while (at != end) take(protozero::decode_varint(&at, end));
}

// The same for a repeated fixed64 field.
template <typename Take>
void for_each_fixed64(protozero::pbf_reader& field, Take take) {
  if (field.wire_type() == protozero::pbf_wire_type::fixed64) {
    take(field.get_fixed64());
    return;
  }
  const std::string_view packed = read_bytes(field);
  if (packed.size() % sizeof(std::uint64_t) != 0) throw Malformed("timestamps are cut");
  for (std::size_t at = 0; at < packed.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t value = 0;
    for (std::size_t byte = 0; byte < sizeof(value); ++byte) {
      value |= std::uint64_t{static_cast<std::uint8_t>(packed[at + byte])} << (8 * byte);
    }
    take(value);
  }
}

struct AnyValue {
  std::optional<std::string_view> text;
  std::optional<std::int64_t> number;
};

class Tables {
 public:
  // `into` gets frames, stacks and spans; `bytes` is the size of what is read and bounds what it may expand to.
  Tables(Recording& into, std::size_t bytes)
      : into_(into), max_frames_(kFreeFrames + kFramesPerByte * bytes), text_left_(kFreeText + kTextPerByte * bytes) {}

  // Adds the rows of one ProfilesDictionary; several merge, as protobuf does it.
  void add(std::string_view dictionary);
  [[nodiscard]] bool empty() const { return strings_.empty(); }

  [[nodiscard]] std::string_view string(std::uint64_t index) const;
  [[nodiscard]] AnyValue any_value(std::string_view bytes) const;
  // Key and value of row `index` of the attribute table.
  struct Attribute {
    std::string_view key;
    AnyValue value;
  };
  [[nodiscard]] Attribute attribute(std::uint64_t index);

  // To be told of all text that is copied, or will be shown, once for each reference to it.
  void charge(std::uint64_t text_bytes) {
    if (text_bytes > text_left_) throw Malformed("it expands to more text than a file of this size can mean");
    text_left_ -= text_bytes;
  }

  // Numbers in the Recording.
  [[nodiscard]] std::uint32_t stack(std::uint64_t index);
  [[nodiscard]] std::uint32_t span(std::uint64_t index);

  // Addresses of this producer's locations are addresses of the file, whatever their mappings say.
  bool file_addresses = false;  // NOLINT(misc-non-private-member-variables-in-classes): set by whoever knows

 private:
  // Frames that stacks may expand to, and text that references may, so that a small file cannot ask for all memory or
  // for all time. Two bytes for a frame with a name of two hundred are honest.
  static constexpr std::size_t kFreeFrames = std::size_t{1} << 20;
  static constexpr std::size_t kFramesPerByte = 16;
  static constexpr std::uint64_t kFreeText = std::uint64_t{64} << 20;
  static constexpr std::uint64_t kTextPerByte = 256;
  using Rows = std::vector<std::string_view>;

  struct Location {
    std::uint64_t mapping = 0;
    std::uint64_t address = 0;
    Rows lines;
    bool synthetic = false;
  };
  struct Module {
    std::uint64_t start = 0, limit = 0, offset = 0;
    std::string name;
  };

  static const std::string_view& row(const Rows& rows, std::uint64_t index, const char* table);
  void append_frames(std::uint64_t location_index, std::vector<std::uint32_t>& frames);
  [[nodiscard]] Location location(std::uint64_t index);
  [[nodiscard]] std::string_view line_name(std::string_view line);
  [[nodiscard]] std::string_view function_name(std::uint64_t index);
  [[nodiscard]] const Module& module(std::uint64_t mapping_index);
  [[nodiscard]] std::string unnamed(const Location& location);
  [[nodiscard]] std::uint32_t make_stack(std::uint64_t index);

  Recording& into_;
  std::size_t max_frames_;
  std::uint64_t text_left_;
  Rows mappings_, locations_, functions_, links_, strings_, attributes_, stacks_;
  // Each row is read once, however many refer to it: rows may be long.
  std::unordered_map<std::uint64_t, Attribute> read_attributes_;
  std::unordered_map<std::uint64_t, std::string_view> function_names_;
  std::unordered_map<std::uint64_t, Module> modules_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> location_frames_;
  std::unordered_map<std::uint64_t, std::uint32_t> stack_numbers_, span_numbers_;
};

}  // namespace spanfold::report
