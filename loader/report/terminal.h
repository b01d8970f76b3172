// SPDX-License-Identifier: Apache-2.0
// Text that is safe and fits on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "report/render.h"

namespace spanfold::report {

// Color and width for what `fd` is: color only on a terminal without NO_COLOR, width from the terminal or COLUMNS.
[[nodiscard]] Style style_of(int fd);

// Without anything that a terminal would obey: control characters and marks that turn the direction of text become
// \u{HEX}, invalid UTF-8 \xHH.
[[nodiscard]] std::string printable(std::string_view text);

// Columns that printable text takes.
[[nodiscard]] std::size_t columns(std::string_view text);

// The beginning of printable text that fits, with "…" where it was cut. 0: no limit.
[[nodiscard]] std::string fit(std::string_view text, std::size_t width);

}  // namespace spanfold::report
