// SPDX-License-Identifier: Apache-2.0
#include "proc/root_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace spanfold::proc {

namespace {

Fd locate_below(int root, const std::string& path, LastLink last_link) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  if (last_link == LastLink::kRefused) how.flags |= O_NOFOLLOW;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return Fd(static_cast<int>(::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how)));
}

}  // namespace

Fd locate_by_openat2(int root, const std::string& path) { return locate_below(root, path, LastLink::kRefused); }

Fd locate_by_walking(int root, const std::string& path) {
  Fd here(::openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  std::string_view rest = path;
  while (here && !rest.empty()) {
    const std::size_t end = rest.find('/');
    const std::string component(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (component.empty() || component == ".") continue;
    if (component == "..") return {};
    // A link is opened as itself, and then has no components.
    here.reset(::openat(here.get(), component.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  }
  return here;
}

std::optional<RootFile> open_in_root(int process_folder, const std::string& path, LastLink last_link) {
  const Fd root(::openat(process_folder, "root", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) return {};
  Fd located = locate_below(root.get(), path, last_link);
  if (!located && errno == ENOSYS) located = locate_by_walking(root.get(), path);
  RootFile file;
  if (!located || ::fstat(located.get(), &file.status) != 0 || !S_ISREG(file.status.st_mode)) return {};
  const std::string again = fmt::format("/proc/self/fd/{}", located.get());
  file.fd.reset(::open(again.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file.fd) return {};
  return file;
}

}  // namespace spanfold::proc
