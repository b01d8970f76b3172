// SPDX-License-Identifier: Apache-2.0
#include "app/instance_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/log.h"

namespace spanfold::app {
namespace {

// A recorder holds the exclusive lock for the instant in which it finds itself alone.
bool share(const Fd& folder) {
  constexpr int kTries = 20;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    if (flock(folder.get(), LOCK_SH | LOCK_NB) == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

std::optional<pid_t> other_holder(const Fd& folder) {
  constexpr std::size_t kMostBytes = 1 << 22;
  struct stat info {};
  const auto locks = read_file("/proc/locks", kMostBytes);
  if (!locks || fstat(folder.get(), &info) != 0) return std::nullopt;
  return find_flock_holder(*locks, info.st_dev, info.st_ino, getpid());
}

}  // namespace

// A line: "1: FLOCK  ADVISORY  READ  1234 00:27:26187 0 EOF", the device in hex. One that waits has "->" behind its
// number.
std::optional<pid_t> find_flock_holder(std::string_view locks, dev_t device, ino_t inode, pid_t self) {
  const std::string file = fmt::format(" {:02x}:{:02x}:{} ", major(device), minor(device), inode);
  while (!locks.empty()) {
    const std::string_view line = locks.substr(0, locks.find('\n'));
    locks.remove_prefix(std::min(line.size() + 1, locks.size()));
    const std::size_t at = line.find(file);
    if (at == std::string_view::npos || line.find(" FLOCK ") == std::string_view::npos ||
        line.find("->") != std::string_view::npos) {
      continue;
    }
    const std::size_t begin = line.rfind(' ', at - 1) + 1;
    pid_t pid = 0;
    std::from_chars(line.data() + begin, line.data() + at, pid);
    // 0 and less: of a process that this pid namespace does not show.
    if (pid > 0 && pid != self) return pid;
  }
  return std::nullopt;
}

Fd announce_recording(const std::string& context_path) {
  const std::string folder_path = std::filesystem::path(context_path).parent_path();
  Fd folder(open(folder_path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return {};
  const bool alone = flock(folder.get(), LOCK_EX | LOCK_NB) == 0;
  // Before the wait for a share of it, while the other surely holds its own.
  const std::optional<pid_t> other = alone ? std::nullopt : other_holder(folder);
  const bool held = share(folder);
  if (alone) return folder;
  log::warning("another spanfold{} records on this host too: each counts on its own, and both cost",
               other ? fmt::format(" (pid {})", *other) : "");
  return held ? std::move(folder) : Fd();
}

}  // namespace spanfold::app
