// SPDX-License-Identifier: Apache-2.0
#include "proc/open_mapped.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "proc/procfs.h"

namespace spanfold::proc {
namespace {

// Component by component, no links: for kernels before 5.6. The kernel's paths hold no link and no "..", so whoever
// meets one is being led astray.
Fd walk_in_root(int root, std::string_view path) {
  Fd here(::openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  while (here && !path.empty()) {
    const std::size_t end = path.find('/');
    const std::string component(path.substr(0, end));
    path.remove_prefix(end == std::string_view::npos ? path.size() : end + 1);
    if (component.empty() || component == ".") continue;
    if (component == "..") return {};
    here.reset(::openat(here.get(), component.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  }
  return here;
}

Fd open_in_root(int process_folder, const std::string& path) {
  const Fd root(::openat(process_folder, "root", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) return {};
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS;
  Fd fd(static_cast<int>(::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof how)));
  if (fd || errno != ENOSYS) return fd;
  return walk_in_root(root.get(), path);
}

// O_PATH: finds the file without opening it, so nothing blocks and no device notices.
Fd locate(Way way, int process_folder, const MapRange& range) {
  switch (way) {
    case Way::kMapFiles:
      return Fd(::openat(process_folder, fmt::format("map_files/{:x}-{:x}", range.start, range.end).c_str(),
                         O_PATH | O_CLOEXEC));
    case Way::kExe: return Fd(::openat(process_folder, "exe", O_PATH | O_CLOEXEC));
    case Way::kRoot: return range.name.starts_with('/') ? open_in_root(process_folder, range.name) : Fd();
  }
  return {};
}

bool same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

// Opens for reading what O_PATH found, of which `file.status` is known.
bool open_located(const Fd& located, OpenedFile& file) {
  const std::string again = fmt::format("/proc/self/fd/{}", located.get());
  file.fd.reset(::open(again.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat opened {};
  return file.fd && ::fstat(file.fd.get(), &opened) == 0 && S_ISREG(opened.st_mode) && same_file(opened, file.status);
}

}  // namespace

std::optional<OpenedFile> open_by(Way way, int process_folder, const MapRange& range) {
  const Fd located = locate(way, process_folder, range);
  OpenedFile file;
  if (!located || ::fstat(located.get(), &file.status) != 0 || !S_ISREG(file.status.st_mode)) return {};
  file.exact = file.status.st_dev == range.device && file.status.st_ino == range.inode;
  if (!file.exact) {
    // map_files follows the mapping itself; the path tells that the range was not mapped anew meanwhile.
    const std::string link = fmt::format("map_files/{:x}-{:x}", range.start, range.end);
    if (way != Way::kMapFiles || read_link_at(process_folder, link.c_str()) != range.name) return {};
  }
  if (!open_located(located, file)) return {};
  return file;
}

std::optional<OpenedFile> open_path(int process_folder, const std::string& path) {
  const Fd located = open_in_root(process_folder, path);
  OpenedFile file;
  if (!located || ::fstat(located.get(), &file.status) != 0 || !S_ISREG(file.status.st_mode)) return {};
  if (!open_located(located, file)) return {};
  return file;
}

std::optional<OpenedFile> open_mapped(int process_folder, const MapRange& range) {
  for (const Way way : {Way::kMapFiles, Way::kExe, Way::kRoot}) {
    auto file = open_by(way, process_folder, range);
    if (file) return file;
  }
  return {};
}

}  // namespace spanfold::proc
