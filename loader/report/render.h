// SPDX-License-Identifier: Apache-2.0
// Answers as text, JSON and folded stacks. Pure: no files, no terminal, equal answers give equal bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "report/group.h"
#include "report/recording.h"

namespace spanfold::report {

// What the place that shows the text can do.
struct Style {
  bool color = false;
  std::size_t width = 0;  // columns; 0: as long as it gets
};

[[nodiscard]] std::string render_text(const Recording& recording, const Answer& answer, const Style& style);

// The schema "spanfold.report/1": see the README.
[[nodiscard]] std::string render_json(const Recording& recording, const Answer& answer);

// One line a stack, root first: frames joined by ";", a space, the count. The count is samples where all shown time is
// on CPU, else nanoseconds. See folded_frame() for names.
[[nodiscard]] std::string render_folded(const Recording& recording, const Answer& answer);

// A name as one frame of a folded line: `;`, control bytes and invalid UTF-8 become \xHH, so does a space at either
// end, and a backslash before an `x` unless it begins an escape that the recorder made. Spaces and digits inside stay:
// the count is what follows the last space of a line. profile::restore_bytes() gives the bytes back.
[[nodiscard]] std::string folded_frame(std::string_view name);

}  // namespace spanfold::report
