// SPDX-License-Identifier: Apache-2.0
// Which parts of an array are free. What was in use is not handed out again before programs that may still read it are
// gone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace spanfold::bpf {

class Extents {
 public:
  explicit Extents(std::uint32_t items) : free_items_(items) {
    if (items > 0) free_.emplace(0, items);
  }

  // The first of `items` neighbours; none: no gap is as long.
  [[nodiscard]] std::optional<std::uint32_t> take(std::uint32_t items);
  // To be free after the next grace period.
  void give_back(std::uint32_t first, std::uint32_t items);
  // Call after a grace period: what was given back before it began is free now.
  void settle();
  // Call before a grace period.
  void mark() { marked_ = leaving_.size(); }

  [[nodiscard]] std::uint32_t free_items() const { return free_items_; }

 private:
  void release(std::uint32_t first, std::uint32_t items);

  std::map<std::uint32_t, std::uint32_t> free_;  // first → items; neighbours are joined
  std::vector<std::pair<std::uint32_t, std::uint32_t>> leaving_;
  std::size_t marked_ = 0;
  std::uint32_t free_items_;
};

}  // namespace spanfold::bpf
