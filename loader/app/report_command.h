// SPDX-License-Identifier: Apache-2.0
// The command line of `spanfold report`.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace spanfold::app {

// Parses the words after `report` and runs it. Gives the exit code; errors are not logged yet.
[[nodiscard]] Result<int> report_command(const std::vector<std::string>& words);

}  // namespace spanfold::app
