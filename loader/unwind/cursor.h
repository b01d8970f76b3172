// SPDX-License-Identifier: Apache-2.0
// Reads numbers of DWARF out of bytes that somebody else wrote. What is beyond the end reads as zero and is remembered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace spanfold::unwind {

class Cursor {
 public:
  // The part [begin, end) of `bytes`; begin <= end <= bytes.size().
  Cursor(std::string_view bytes, std::size_t begin, std::size_t end)
      : base_(bytes.data()), at_(base_ + begin), end_(base_ + end) {}
  explicit Cursor(std::string_view bytes) : Cursor(bytes, 0, bytes.size()) {}

  [[nodiscard]] bool good() const { return good_; }  // nothing was read beyond the end
  [[nodiscard]] bool at_end() const { return at_ == end_; }
  [[nodiscard]] std::size_t offset() const { return static_cast<std::size_t>(at_ - base_); }  // in all of `bytes`
  [[nodiscard]] std::uint64_t left() const { return static_cast<std::uint64_t>(end_ - at_); }

  // In the host's byte order, which is the file's.
  template <typename T>
  requires std::is_integral_v<T> T number() {
    T value = 0;
    if (left() < sizeof value) {
      fail();
    } else {
      std::memcpy(&value, at_, sizeof value);
      at_ += sizeof value;
    }
    return value;
  }

  std::uint64_t uleb() {
    unsigned shift = 0;
    return leb(shift).first;
  }

  std::int64_t sleb() {
    unsigned shift = 0;
    auto [value, last] = leb(shift);
    if ((last & 0x40) != 0 && shift < 64) value |= ~0ULL << shift;
    return static_cast<std::int64_t>(value);
  }

  // The next `bytes` bytes; none where there are fewer.
  std::string_view block(std::uint64_t bytes) {
    if (bytes > left()) {
      fail();
      return {};
    }
    const std::string_view found(at_, bytes);
    at_ += bytes;
    return found;
  }

  // Up to a NUL, which is passed over.
  std::string_view text() {
    const std::string_view rest(at_, left());
    const std::size_t length = rest.find('\0');
    if (length == std::string_view::npos) {
      fail();
      return {};
    }
    at_ += length + 1;
    return rest.substr(0, length);
  }

 private:
  struct Leb {
    std::uint64_t first = 0;
    std::uint8_t last = 0;  // its last byte
  };
  // `shift` becomes the number of bits that were read. More than ten bytes are no number.
  Leb leb(unsigned& shift) {
    Leb read;
    do {
      read.last = number<std::uint8_t>();
      if (shift < 64) read.first |= static_cast<std::uint64_t>(read.last & 0x7f) << shift;
      shift += 7;
    } while ((read.last & 0x80) != 0 && shift < 70);
    if ((read.last & 0x80) != 0) fail();
    return read;
  }
  void fail() {
    good_ = false;
    at_ = end_;
  }

  const char* base_;
  const char* at_;
  const char* end_;
  bool good_ = true;
};

}  // namespace spanfold::unwind
