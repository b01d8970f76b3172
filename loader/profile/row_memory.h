// SPDX-License-Identifier: Apache-2.0
// Remembers which row of a dictionary table holds a content, by hash, in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "profile/hash.h"

namespace spanfold::profile {

// Hash to row number, open addressing. Row 0 is never stored: it is the zero value and marks an empty slot.
class RowTable {
 public:
  [[nodiscard]] std::uint32_t find(Hash128 key) const;  // 0: not here
  void insert(Hash128 key, std::uint32_t row);          // the key must not be here, row not 0
  void clear();                                         // keeps the capacity
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Slot {
    Hash128 key;
    std::uint32_t row = 0;
  };
  void grow();

  std::vector<Slot> slots_;  // a power of two, at most 3/4 full
  std::size_t size_ = 0;
};

// Two generations of RowTable: when the younger holds `limit` rows it becomes the elder and the elder is forgotten, so
// at least the `limit` rows used last are known. A forgotten row that returns gets a second number.
class RowMemory {
 public:
  explicit RowMemory(std::size_t limit) : limit_(limit) {}  // 0: no limit, nothing is forgotten

  [[nodiscard]] std::uint32_t find(Hash128 key);  // 0: not known
  void insert(Hash128 key, std::uint32_t row);
  void clear();

 private:
  std::size_t limit_;
  RowTable young_;
  RowTable old_;
};

}  // namespace spanfold::profile
