// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace spanfold {

Result<Fd> open_read(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (fd) return fd;
  const bool refused = errno == EACCES || errno == EPERM;
  return errno_error(fmt::format("open {}", path), refused ? "run as root" : "");
}

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  auto fd = open_read(path);
  if (!fd) return fd.error();
  constexpr std::size_t kStep = 64UL * 1024;
  std::string data;
  while (true) {
    // One byte more than allowed is asked for: only its arrival tells a file that is too long from one that just fits.
    const std::size_t room = std::min(kStep, max_bytes - data.size() + 1);
    const std::size_t have = data.size();
    data.resize(have + room);
    const ssize_t got = ::read(fd->get(), data.data() + have, room);
    if (got < 0 && errno == EINTR) {
      data.resize(have);
      continue;
    }
    if (got < 0) return errno_error(fmt::format("read {}", path));
    data.resize(have + static_cast<std::size_t>(got));
    if (got == 0) return data;
    if (data.size() > max_bytes) {
      return Error{.what = fmt::format("read {}: longer than {} bytes", path, max_bytes), .code = EFBIG};
    }
  }
}

Status write_all(int fd, std::string_view data, std::string_view name) {
  while (!data.empty()) {
    const ssize_t written = ::write(fd, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno_error(fmt::format("write {}", name));
    data.remove_prefix(static_cast<std::size_t>(written));
  }
  return ok();
}

}  // namespace spanfold
