// SPDX-License-Identifier: Apache-2.0
#include "proc/byte_source.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

namespace spanfold::proc {

std::size_t FileSource::read_some(std::uint64_t offset, std::span<char> into) const {
  std::size_t have = 0;
  while (have < into.size()) {
    const std::uint64_t at = offset + have;
    if (at < offset || at > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) break;
    const ssize_t got = ::pread(fd_.get(), into.data() + have, into.size() - have, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  return have;
}

bool FileSource::unchanged() const {
  struct stat now {};
  return ::fstat(fd_.get(), &now) == 0 && static_cast<std::uint64_t>(now.st_size) == size_ &&
         now.st_mtim.tv_sec == modified_.tv_sec && now.st_mtim.tv_nsec == modified_.tv_nsec;
}

std::size_t MemorySource::read_some(std::uint64_t offset, std::span<char> into) const {
  if (offset >= bytes_.size()) return 0;
  const std::size_t length = std::min<std::size_t>(into.size(), bytes_.size() - offset);
  std::copy_n(bytes_.data() + offset, length, into.data());
  return length;
}

const WindowReader::Window& WindowReader::window_of(std::uint64_t offset) {
  const std::uint64_t start = offset / kWindowBytes * kWindowBytes;
  Window& window = windows_[(start / kWindowBytes) % kWindows];
  if (window.start != start) {
    window.bytes.resize(std::min<std::uint64_t>(kWindowBytes, source_.size() - std::min(start, source_.size())));
    window.bytes.resize(source_.read_some(start, window.bytes));
    window.start = start;
    ++reads_;
  }
  return window;
}

std::string_view WindowReader::text_at(std::uint64_t offset, std::uint64_t limit, std::size_t max_bytes) {
  joined_.clear();
  while (offset < limit && joined_.size() < max_bytes) {
    const Window& window = window_of(offset);
    const std::uint64_t skip = offset - window.start;
    if (skip >= window.bytes.size()) break;
    const std::uint64_t room = std::min<std::uint64_t>(max_bytes - joined_.size(), limit - offset);
    const std::string_view part = std::string_view(window.bytes).substr(skip, room);
    const std::size_t end = part.find('\0');
    if (end != std::string_view::npos && joined_.empty()) return part.substr(0, end);
    joined_ += part.substr(0, end);
    if (end != std::string_view::npos) break;
    offset += part.size();
  }
  return joined_;
}

std::string_view WindowReader::bytes_at(std::uint64_t offset, std::size_t bytes) {
  joined_.clear();
  while (joined_.size() < bytes) {
    const Window& window = window_of(offset);
    const std::uint64_t skip = offset - window.start;
    if (skip >= window.bytes.size()) break;
    const std::string_view part = std::string_view(window.bytes).substr(skip, bytes - joined_.size());
    if (part.size() == bytes) return part;
    joined_ += part;
    offset += part.size();
  }
  return joined_;
}

}  // namespace spanfold::proc
