// SPDX-License-Identifier: Apache-2.0
#include "profile/row_memory.h"

#include <algorithm>

namespace spanfold::profile {
namespace {

constexpr std::size_t kFirstCapacity = 64;

}  // namespace

std::uint32_t RowTable::find(Hash128 key) const {
  if (slots_.empty()) return 0;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = key.low & mask; slots_[at].row != 0; at = (at + 1) & mask) {
    if (slots_[at].key == key) return slots_[at].row;
  }
  return 0;
}

void RowTable::insert(Hash128 key, std::uint32_t row) {
  if ((size_ + 1) * 4 > slots_.size() * 3) grow();
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = key.low & mask;
  while (slots_[at].row != 0) at = (at + 1) & mask;
  slots_[at] = {key, row};
  ++size_;
}

void RowTable::clear() {
  std::fill(slots_.begin(), slots_.end(), Slot{});
  size_ = 0;
}

void RowTable::grow() {
  std::vector<Slot> before = std::move(slots_);
  slots_.assign(std::max(kFirstCapacity, before.size() * 2), Slot{});
  size_ = 0;
  for (const Slot& slot : before) {
    if (slot.row != 0) insert(slot.key, slot.row);
  }
}

std::uint32_t RowMemory::find(Hash128 key) {
  if (const std::uint32_t row = young_.find(key)) return row;
  const std::uint32_t row = old_.find(key);
  if (row != 0) insert(key, row);
  return row;
}

void RowMemory::insert(Hash128 key, std::uint32_t row) {
  if (limit_ != 0 && young_.size() >= limit_) {
    std::swap(young_, old_);
    young_.clear();
  }
  young_.insert(key, row);
}

void RowMemory::clear() {
  young_.clear();
  old_.clear();
}

}  // namespace spanfold::profile
