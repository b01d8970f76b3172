// SPDX-License-Identifier: Apache-2.0
// /proc/PID/maps of a process, read and parsed.
#pragma once

#include <optional>
#include <vector>

#include "proc/maps.h"

namespace spanfold::proc {

// The executable ranges, through an open folder /proc/PID. None where it cannot be read.
[[nodiscard]] std::optional<std::vector<MapRange>> read_maps(int process_folder);

}  // namespace spanfold::proc
