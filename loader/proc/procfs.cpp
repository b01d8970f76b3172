// SPDX-License-Identifier: Apache-2.0
#include "proc/procfs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <vector>

namespace spanfold::proc {

Fd open_process_folder(std::uint32_t pid) {
  return Fd(::open(fmt::format("/proc/{}", pid).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

bool read_pieces_at(int folder, const char* name, std::size_t max_bytes,
                    const std::function<void(std::string_view)>& take) {
  const Fd fd(::openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd) return false;
  constexpr std::size_t kPieceBytes = 32UL * 1024;
  std::vector<char> piece(std::min(kPieceBytes, max_bytes));
  while (max_bytes > 0) {
    const ssize_t got = ::read(fd.get(), piece.data(), std::min(piece.size(), max_bytes));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) break;
    take({piece.data(), static_cast<std::size_t>(got)});
    max_bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

std::optional<std::string> read_at(int folder, const char* name, std::size_t max_bytes) {
  std::string text;
  if (!read_pieces_at(folder, name, max_bytes, [&](std::string_view piece) { text += piece; })) return {};
  return text;
}

std::string read_link_at(int folder, const char* name) {
  std::string target(PATH_MAX, '\0');
  const ssize_t length = ::readlinkat(folder, name, target.data(), target.size());
  target.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
  return target;
}

}  // namespace spanfold::proc
