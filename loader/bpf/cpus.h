// SPDX-License-Identifier: Apache-2.0
// The host's CPUs, as the kernel lists them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace spanfold::bpf {

// Parses the kernel's list form, "0-3,5". Empty where the text is no such list.
[[nodiscard]] std::vector<int> parse_cpu_list(const std::string& text);

// Those that are online now.
[[nodiscard]] Result<std::vector<int>> online_cpus();

}  // namespace spanfold::bpf
