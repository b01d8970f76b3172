// SPDX-License-Identifier: Apache-2.0
// Opens a file at a path as a process sees it: below the root of that process, wherever its links lead, and nowhere
// else.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

#include "base/fd.h"

namespace spanfold::proc {

struct RootFile {
  Fd fd;  // O_RDONLY
  struct stat status {};
};

// `path` is absolute; `process_folder` is an open folder /proc/PID. Links on the way stay within the root, and are not
// followed at all where the kernel cannot promise that (before 5.6). None where the last component is no regular file:
// a FIFO or a device is looked at, but never opened, and so is a link unless it may be followed.
enum class LastLink : unsigned char { kRefused, kFollowed };
[[nodiscard]] std::optional<RootFile> open_in_root(int process_folder, const std::string& path,
                                                   LastLink last_link = LastLink::kRefused);

// Each way alone, for tests. Both give an O_PATH descriptor.
[[nodiscard]] Fd locate_by_openat2(int root, const std::string& path);
[[nodiscard]] Fd locate_by_walking(int root, const std::string& path);

}  // namespace spanfold::proc
