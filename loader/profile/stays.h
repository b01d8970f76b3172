// SPDX-License-Identifier: Apache-2.0
// One span's stays on threads: which of them are one, and how they are listed. Pure: knows no windows and no bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "profile/model.h"

namespace spanfold::profile {

// Stays that follow one another at no more than this are one: their lengths add up, the gap does not count. The same
// as SF_LINGER_NS of bpf/abi.h.
inline constexpr std::uint64_t kLingerNs = 100'000;
// Stays of one span that a message lists.
inline constexpr std::size_t kMaxStays = 64;
// A stay of this length is not one of its own: it says where the one before it ends, whatever lies between, because
// begin + length falls short of the end of a stay that was made of several.
inline constexpr std::uint64_t kEndMarkNs = 1;
// An end that falls short by no more than this gets no mark.
inline constexpr std::uint64_t kUnmarkedNs = 1000;

// A stay, a part of one (cut at a flush), or several close ones.
struct StayPiece {
  std::uint64_t begin_unix_nano = 0;
  std::uint64_t end_unix_nano = 0;
  std::uint64_t length_ns = 0;  // on threads: end - begin, or less by the gaps in between
  auto operator<=>(const StayPiece&) const = default;
};

// Pieces, of one span and in any order, that are one become one; sorted by begin. Those that overlap are of several
// threads and stay apart.
[[nodiscard]] std::vector<StayPiece> join_close(std::vector<StayPiece> pieces);

// Gathers the pieces of one span: 32 bytes for one of them, bounded for any number.
class Stays {
 public:
  // A piece is at least 1 ns long and lasts at least that; its length is no more than what it lasts.
  void add(StayPiece piece);

  // Sorted, at most `max` (3 or more), lengths adding up to those of the pieces. The greatest begin + length is the end
  // of the last piece (or up to kUnmarkedNs before it); where it was made of several, an end mark sees to that. Beyond
  // `max`, those with the smallest gaps become one, but never the one that ends last. Only where more than `max`
  // overlap does a stay get longer than what lies between its begin and the span's end.
  [[nodiscard]] std::vector<Stay> list(std::size_t max = kMaxStays) const;

 private:
  [[nodiscard]] std::vector<StayPiece> pieces() const;

  StayPiece first_;  // length 0: none
  std::unique_ptr<std::vector<StayPiece>> more_;
};

}  // namespace spanfold::profile
