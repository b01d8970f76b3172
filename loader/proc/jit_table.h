// SPDX-License-Identifier: Apache-2.0
// Which entry of a JIT compiler's log owns which address: the latest one that covers it. Code space is used again, so
// earlier entries are trimmed to what later ones left of them. Names stay in the log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace spanfold::proc {

struct JitCode {
  std::uint64_t start = 0;
  std::uint32_t bytes = 0;
  std::uint32_t where = 0;  // offset of its entry in the log: the larger, the later
};
static_assert(sizeof(JitCode) == 16);

class JitTable {
 public:
  // `code` has at least a byte, does not reach the end of the address space, and stands behind all that came before.
  void add(const JitCode& code) { pending_.push_back(code); }
  // How many were added and not settled yet.
  [[nodiscard]] std::size_t pending() const { return pending_.size(); }
  // Decides who owns what. Keeps at most `most` ranges: the latest ones. Gives how many were dropped.
  std::size_t settle(std::size_t most);

  // The owner of `address` as of the last settle(); null where there is none.
  [[nodiscard]] const JitCode* find(std::uint64_t address) const;
  // The same as if all were settled. Slow: looks at each pending one.
  [[nodiscard]] const JitCode* find_latest(std::uint64_t address) const;

  [[nodiscard]] std::size_t size() const { return settled_.size(); }
  [[nodiscard]] const std::vector<JitCode>& ranges() const { return settled_; }
  [[nodiscard]] std::size_t memory_bytes() const {
    return (settled_.capacity() + pending_.capacity()) * sizeof(JitCode);
  }
  void clear();

 private:
  std::vector<JitCode> settled_;  // by start, disjoint
  std::vector<JitCode> pending_;  // by where
};

}  // namespace spanfold::proc
