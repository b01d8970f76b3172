// SPDX-License-Identifier: Apache-2.0
// Bounded reading of bytes that somebody else wrote: a file by pread (never by mmap: a file that is truncated under a
// mapping raises SIGBUS), or memory that was copied before.
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/fd.h"

namespace spanfold::proc {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // As it was when the source was made; what is read later may be shorter.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  // Fills the front of `into`; how many bytes came, fewer at the end of the source or on an error.
  [[nodiscard]] virtual std::size_t read_some(std::uint64_t offset, std::span<char> into) const = 0;

  // The open file that the bytes are read from; -1: none.
  [[nodiscard]] virtual int descriptor() const { return -1; }

  // False once somebody has written into it since the source was made: what is read then belongs to something else.
  [[nodiscard]] virtual bool unchanged() const { return true; }

  [[nodiscard]] bool read_exactly(std::uint64_t offset, std::span<char> into) const {
    return read_some(offset, into) == into.size();
  }
  // One fixed-width structure in the host's byte order.
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] bool read_struct(std::uint64_t offset, T& value) const {
    return read_exactly(offset, {reinterpret_cast<char*>(&value), sizeof value});
  }
};

class FileSource final : public ByteSource {
 public:
  // `status` is what fstat said of `fd`.
  FileSource(Fd fd, const struct stat& status)
      : fd_(std::move(fd)), size_(static_cast<std::uint64_t>(status.st_size)), modified_(status.st_mtim) {}
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  [[nodiscard]] int descriptor() const override { return fd_.get(); }
  // By size and time of modification; not by that of the last status change, which the removal of a name moves too.
  [[nodiscard]] bool unchanged() const override;
  [[nodiscard]] std::size_t read_some(std::uint64_t offset, std::span<char> into) const override;

 private:
  Fd fd_;
  std::uint64_t size_;
  timespec modified_;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string bytes) : bytes_(std::move(bytes)) {}
  [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }
  [[nodiscard]] std::size_t read_some(std::uint64_t offset, std::span<char> into) const override;
  [[nodiscard]] std::string_view bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads `count` items of one type, chunk by chunk, until `take` was given all or the source ends.
template <typename Item, typename Take>
requires std::is_trivially_copyable_v<Item>
void each_item(const ByteSource& source, std::uint64_t offset, std::uint64_t count, Take take) {
  constexpr std::uint64_t kAtOnce = 64UL * 1024 / sizeof(Item);
  // Room for no more than the source holds, whatever is asked for.
  std::vector<Item> items(std::min({count, kAtOnce, source.size() / sizeof(Item) + 1}));
  while (count > 0) {
    const std::uint64_t want = std::min<std::uint64_t>(count, items.size());
    const std::size_t got = source.read_some(offset, {reinterpret_cast<char*>(items.data()), want * sizeof(Item)});
    const std::size_t whole = got / sizeof(Item);
    for (std::size_t i = 0; i < whole; ++i) take(items[i]);
    if (whole < want) return;
    offset += got;
    count -= want;
  }
}

// Small random reads through windows of one source: neighbours cost no system call, and what is far apart no more than
// a page.
class WindowReader {
 public:
  explicit WindowReader(const ByteSource& source) : source_(source) {}
  // The text at `offset` up to its NUL, at most `max_bytes` and never past `limit` (an offset). Empty where nothing
  // can be read. Valid until the next call.
  [[nodiscard]] std::string_view text_at(std::uint64_t offset, std::uint64_t limit, std::size_t max_bytes);
  // The `bytes` bytes at `offset`, fewer at the end of the source. Valid until the next call.
  [[nodiscard]] std::string_view bytes_at(std::uint64_t offset, std::size_t bytes);
  // How often the source was asked. A file decides in what order it is read: whoever follows its offsets looks here.
  [[nodiscard]] std::uint64_t reads() const { return reads_; }

 private:
  static constexpr std::size_t kWindowBytes = 4UL * 1024;
  static constexpr std::size_t kWindows = 64;
  struct Window {
    std::uint64_t start = ~0ULL;
    std::string bytes;
  };
  const Window& window_of(std::uint64_t offset);

  const ByteSource& source_;
  std::uint64_t reads_ = 0;
  std::vector<Window> windows_ = std::vector<Window>(kWindows);
  std::string joined_;
};

}  // namespace spanfold::proc
