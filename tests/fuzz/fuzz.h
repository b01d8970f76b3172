// SPDX-License-Identifier: Apache-2.0
// What the fuzzers share: checks, inputs taken apart, and sources that count what is read of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "proc/byte_source.h"

// Called by libFuzzer for each input; always gives 0.
// NOLINTNEXTLINE(readability-identifier-naming): the name that it looks for
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace spanfold::fuzz {

// Ends the program, which makes the input a reproducer.
inline void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "fuzz: not so: %s\n", what);
  std::abort();
}

inline bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Rune rune = decode_rune(text);
    if (rune.length == 0) return false;
    text.remove_prefix(rune.length);
  }
  return true;
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// An input, read from its front; zeros where it has ended.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  template <typename Number>
  Number take() {
    Number number{};
    const std::string_view bytes = text(sizeof number);
    if (!bytes.empty()) std::memcpy(&number, bytes.data(), bytes.size());
    return number;
  }
  std::string_view text(std::size_t most) {
    const std::string_view front = rest_.substr(0, most);
    rest_.remove_prefix(front.size());
    return front;
  }
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// Cuts `text` into pieces of up to `most` bytes, of lengths that `seed` decides, and gives each to `take`.
template <typename Take>
void in_pieces(std::string_view text, std::uint32_t seed, std::size_t most, Take take) {
  while (!text.empty()) {
    seed = seed * 1664525 + 1013904223;
    const std::size_t length = 1 + (seed >> 16) % most;
    take(text.substr(0, length));
    text.remove_prefix(std::min(length, text.size()));
  }
}

// Memory that must not be read over and over.
class CountedSource final : public proc::ByteSource {
 public:
  explicit CountedSource(std::string_view bytes) : source_(std::string(bytes)) {}
  [[nodiscard]] std::uint64_t size() const override { return source_.size(); }
  [[nodiscard]] std::size_t read_some(std::uint64_t offset, std::span<char> into) const override {
    const std::size_t got = source_.read_some(offset, into);
    bytes_read_ += got;
    ++reads_;
    return got;
  }
  [[nodiscard]] std::string_view bytes() const { return source_.bytes(); }
  [[nodiscard]] std::uint64_t bytes_read() const { return bytes_read_; }
  // What reading once, and a bounded number of times again, comes to.
  void check_not_more_than(std::uint64_t times) const {
    if (bytes_read_ <= times * (size() + 4096) && reads_ <= times * 64 + size()) return;
    std::fprintf(stderr, "fuzz: %llu bytes in %llu reads of a file of %llu\n",
                 static_cast<unsigned long long>(bytes_read_), static_cast<unsigned long long>(reads_),
                 static_cast<unsigned long long>(size()));
    std::abort();
  }

 private:
  proc::MemorySource source_;
  mutable std::uint64_t bytes_read_ = 0;
  mutable std::uint64_t reads_ = 0;
};

}  // namespace spanfold::fuzz
