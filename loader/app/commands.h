// SPDX-License-Identifier: Apache-2.0
// The commands of the program: from the words of the command line to the exit code.
#pragma once

#include <string>
#include <vector>

namespace spanfold::app {

// Never throws: what goes wrong is one line on standard error and an exit code (0 done, 1 failed, 2 usage, 3 this host
// cannot record; 125 for a failure of ours beside a recorded command).
[[nodiscard]] int run_command(const std::vector<std::string>& words);

}  // namespace spanfold::app
