// SPDX-License-Identifier: Apache-2.0
// Writes a Table in one pass: rows come in the order of their addresses, equal neighbours become one, equal rules are
// kept once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "unwind/rule.h"

namespace spanfold::unwind {

class TableWriter {
 public:
  static constexpr std::size_t kMostRows = 4'000'000;  // 14 of Debian's largest libraries in one
  static constexpr std::size_t kMostRules = 65'536;    // real files have some hundreds

  explicit TableWriter(std::uint64_t base);

  // From `start` on; not before what was written last. What has the same start is written over. False, and nothing is
  // written, where there is no room but for the end.
  bool put(std::uint32_t start, const Rule& rule);

  // Nothing is known from `start` on.
  [[nodiscard]] Table finish(std::uint32_t start) &&;

 private:
  std::uint32_t id_of(const Rule& rule);
  void write(std::uint32_t start, std::uint32_t id);

  struct Known {
    Rule rule;
    std::uint32_t id = 0;
  };
  // Few rules make most rows. Behind these a tree, not a hash table: nobody can make it slow.
  static constexpr std::size_t kRecent = 1024;

  Table table_;
  std::map<Rule, std::uint32_t> ids_;
  std::vector<Known> recent_ = std::vector<Known>(kRecent);
  std::uint32_t unsupported_ = 0;  // its id; 0: none yet
};

}  // namespace spanfold::unwind
