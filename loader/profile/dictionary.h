// SPDX-License-Identifier: Apache-2.0
// One ProfilesDictionary as it grows: content in, row numbers out, and the bytes of rows that are new.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "profile/hash.h"
#include "profile/model.h"
#include "profile/row_memory.h"

namespace spanfold::profile {

class Dictionary {
 public:
  // Bounded: rows that were not used while a limit of others were (kLimits in dictionary.cpp, 65,536 links and more of
  // the rest) are forgotten and written a second time when they return. Memory stays under 40 MiB, most runs need 2.
  explicit Dictionary(bool bounded);

  // Forgets all rows and begins with the zero value in each table. `seed` keeps hostile content from colliding.
  void start(Hash128 seed);
  // Frames and mappings are recognised by address within one batch; their owners may move them between batches.
  void start_batch();

  std::uint32_t string(std::string_view bytes);  // made valid UTF-8
  std::uint32_t link(const SpanContext& span);   // 0 for none
  std::uint32_t attribute(std::string_view key, const AttributeValue& value);
  std::uint32_t stack(std::span<const Frame> frames, std::uint64_t stack_key);  // key 0: none

  // Bytes of a ProfilesDictionary that holds the rows made since the last call.
  [[nodiscard]] std::string take_rows();

 private:
  struct Table {
    explicit Table(std::size_t limit) : memory(limit) {}
    RowMemory memory;
    std::uint32_t rows = 0;
  };

  [[nodiscard]] Hasher hasher() const { return Hasher(seed_); }
  std::uint32_t location(const Frame& frame);
  std::uint32_t new_location(const Frame& frame);
  std::uint32_t function(const SourceLine& source);
  std::uint32_t mapping(const Mapping* mapping);
  std::uint32_t new_mapping(const Mapping& mapping);
  // Row of `key` in `table`; a new one has the body `write` makes, as field `field` of the dictionary.
  template <typename Write>
  std::uint32_t row(Table& table, std::uint32_t field, Hash128 key, Write write);

  Hash128 seed_;
  Table mappings_, locations_, functions_, links_, strings_, attributes_, stacks_;
  RowMemory stack_keys_;
  RowTable batch_frames_;  // by the values of the pointers in a Frame
  std::unordered_map<const Mapping*, std::uint32_t> batch_mappings_;
  std::vector<std::uint32_t> scratch_;
  std::vector<std::uint32_t> line_rows_;
  std::string rows_;
};

}  // namespace spanfold::profile
