// SPDX-License-Identifier: Apache-2.0
// A finished report to standard output or a file.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace spanfold::report {

[[nodiscard]] bool is_stdout(const std::string& path);

// Standard output ("-"): a reader that has seen enough and left is no error. A file appears whole or not at all:
// written under a temporary name beside it, synchronised, renamed. Devices and FIFOs are written to directly.
[[nodiscard]] Status deliver(std::string_view text, const std::string& path);

}  // namespace spanfold::report
