// SPDX-License-Identifier: Apache-2.0
// One recording, from the options to the exit code.
#pragma once

#include "app/options.h"
#include "base/result.h"

namespace spanfold::app {

// The exit code for a failure of ours beside a recorded command, whose own status is the program's otherwise.
inline constexpr int kOwnFailureBesideCommand = 125;

// Gives the program's exit code: 0, or the command's own. Errors are not logged yet.
[[nodiscard]] Result<int> record(const RecordOptions& options);

}  // namespace spanfold::app
