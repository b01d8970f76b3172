// SPDX-License-Identifier: Apache-2.0
// Keeps one copy of each name and mapping, at an address that does not change, for the frames that point at them.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <unordered_set>

#include "base/frame.h"

namespace spanfold::proc {

class Interner {
 public:
  const std::string* name(std::string text) {
    const auto [place, added] = names_.insert(std::move(text));
    if (added) bytes_ += sizeof(std::string) + place->capacity();
    return &*place;
  }
  const Mapping* mapping(Mapping mapping) {
    const auto [place, added] = mappings_.insert(std::move(mapping));
    if (added) bytes_ += sizeof(Mapping) + place->filename.capacity() + place->build_id_gnu.capacity();
    return &*place;
  }
  // About how much memory they hold.
  [[nodiscard]] std::size_t memory_bytes() const { return bytes_; }
  [[nodiscard]] std::size_t names() const { return names_.size(); }
  void clear() {
    names_.clear();
    mappings_.clear();
    bytes_ = 0;
  }

 private:
  std::unordered_set<std::string> names_;
  std::set<Mapping> mappings_;
  std::size_t bytes_ = 0;
};

}  // namespace spanfold::proc
