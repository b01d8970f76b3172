// SPDX-License-Identifier: Apache-2.0
// A seeded 128-bit hash of content, so that rows need not be kept to be recognised. Not for secrets: the seed, which
// no one outside knows while a recording runs, is what keeps hostile names from being made to collide.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace spanfold::profile {

struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const Hash128&) const = default;
};

// Two lanes, each a multiply whose 128-bit product is folded, seeded and combined differently.
class Hasher {
 public:
  explicit Hasher(Hash128 seed) : low_(seed.low ^ kOddA), high_(seed.high ^ kOddB) {}

  Hasher& word(std::uint64_t value) {
    low_ = fold(low_ ^ value, kOddB) + high_;
    high_ = fold(std::rotl(high_, 23) ^ (value + kOddC), kOddA);
    return *this;
  }

  // Length first, so that neighbouring byte strings cannot trade bytes.
  Hasher& bytes(std::string_view data) {
    word(data.size());
    while (data.size() >= sizeof(std::uint64_t)) {
      word(load(data.data(), sizeof(std::uint64_t)));
      data.remove_prefix(sizeof(std::uint64_t));
    }
    return data.empty() ? *this : word(load(data.data(), data.size()));
  }

  [[nodiscard]] Hash128 result() const {
    return {fold(low_ ^ kOddC, std::rotl(high_, 32) | 1), fold(high_ ^ kOddB, std::rotl(low_, 17) | 1)};
  }

 private:
  static constexpr std::uint64_t kOddA = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
  static constexpr std::uint64_t kOddB = 0xb504f333f9de6485;  // 2^64 / sqrt 2, made odd
  static constexpr std::uint64_t kOddC = 0x93cd3a2c8198e269;  // 2^64 / sqrt 3, made odd

  static std::uint64_t fold(std::uint64_t left, std::uint64_t right) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(left) * right;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }
  static std::uint64_t load(const char* data, std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, data, size);
    return value;
  }

  std::uint64_t low_;
  std::uint64_t high_;
};

}  // namespace spanfold::profile
