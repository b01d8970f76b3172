// SPDX-License-Identifier: Apache-2.0
// Opens the very file that a process has mapped, and nothing else: paths and what stands there belong to whoever runs
// in the process, or in its container.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

#include "base/fd.h"
#include "proc/maps.h"

namespace spanfold::proc {

struct OpenedFile {
  Fd fd;  // O_RDONLY
  struct stat status {};
  // Device and inode are those that /proc/PID/maps prints. Not so where a file system has several devices behind one
  // superblock (btrfs, overlayfs): then they do not identify the file for others.
  bool exact = false;
};

// How to get at it; tests try each alone. map_files needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN.
enum class Way : unsigned char { kMapFiles, kExe, kRoot };

// Through one way, relative to an open folder /proc/PID. None where the file is not regular (a FIFO, a device, …: it is
// looked at before it is opened), cannot be opened, or is not the one that `range` says: same device and inode, or, by
// map_files only, the same path in the kernel's words.
[[nodiscard]] std::optional<OpenedFile> open_by(Way way, int process_folder, const MapRange& range);

// Whatever regular file stands at `path` below the root of the process, without following a link. Whether it is the one
// that is meant is the caller's to find out.
[[nodiscard]] std::optional<OpenedFile> open_path(int process_folder, const std::string& path);

// Through the first way that leads to it.
[[nodiscard]] std::optional<OpenedFile> open_mapped(int process_folder, const MapRange& range);

}  // namespace spanfold::proc
