// SPDX-License-Identifier: Apache-2.0
// What the names in a JIT compiler's log mean: whose code it is, and how it is shown.
#pragma once

#include <string>
#include <string_view>

#include "base/frame.h"

namespace spanfold::proc {

// The type of the code that a process generates which maps a file of this name: the JVM, .NET and Node are known by
// theirs. kNative where the name says nothing.
[[nodiscard]] FrameType type_by_mapping(std::string_view mapped_name);

// The type of the code called `name` in a log; `otherwise` where the name does not say it by its beginning, as those of
// CPython ("py::") and V8 ("JS:", "Builtin:", …) do.
[[nodiscard]] FrameType type_by_name(std::string_view name, FrameType otherwise);

// `name` without what its type says already: "py::work:/app/a.py" → "work:/app/a.py". Of V8's "JS:*work /app/a.js:3:7"
// the mark goes too ("*" optimised, "~" interpreted, "^" baseline, "+" in between): so a function is one, however
// often it was compiled. All else is shown as it is. Never longer than kMaxShownNameBytes of demangle.h.
[[nodiscard]] std::string shown_name(std::string_view name);

}  // namespace spanfold::proc
