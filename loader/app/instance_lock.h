// SPDX-License-Identifier: Apache-2.0
// Tells recorders on one host of each other, by a lock on the folder of the context map's pin. The kernel lets go of it
// with the process, however that ends: nothing is left behind.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"

namespace spanfold::app {

// Takes a place beside whoever records already, and warns of them. Keep the descriptor as long as the recording goes
// on; none where the folder cannot be locked, which harms nothing.
[[nodiscard]] Fd announce_recording(const std::string& context_path);

// Of /proc/locks (proc_locks(5)): a process but `self` that holds a flock on the file, if it shows here.
[[nodiscard]] std::optional<pid_t> find_flock_holder(std::string_view locks, dev_t device, ino_t inode, pid_t self);

}  // namespace spanfold::app
