// SPDX-License-Identifier: Apache-2.0
#include "bpf/extents.h"

#include <iterator>

namespace spanfold::bpf {

std::optional<std::uint32_t> Extents::take(std::uint32_t items) {
  // The smallest gap that fits, so that large ones stay for large tables.
  auto best = free_.end();
  for (auto gap = free_.begin(); gap != free_.end(); ++gap) {
    if (gap->second >= items && (best == free_.end() || gap->second < best->second)) best = gap;
  }
  if (best == free_.end() || items == 0) return {};
  const auto [first, length] = *best;
  free_.erase(best);
  if (length > items) free_.emplace(first + items, length - items);
  free_items_ -= items;
  return first;
}

void Extents::give_back(std::uint32_t first, std::uint32_t items) {
  if (items > 0) leaving_.emplace_back(first, items);
}

void Extents::release(std::uint32_t first, std::uint32_t items) {
  free_items_ += items;
  auto next = free_.lower_bound(first);
  if (next != free_.end() && first + items == next->first) {
    items += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == first) {
      before->second += items;
      return;
    }
  }
  free_.emplace(first, items);
}

void Extents::settle() {
  for (std::size_t i = 0; i < marked_; ++i) release(leaving_[i].first, leaving_[i].second);
  leaving_.erase(leaving_.begin(), leaving_.begin() + static_cast<std::ptrdiff_t>(marked_));
  marked_ = 0;
}

}  // namespace spanfold::bpf
