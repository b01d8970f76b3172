// SPDX-License-Identifier: Apache-2.0
// Whether a file brings V8 with it, and so a megabyte of code that V8 compiled when it was built: nothing says how that
// is unwound, but it keeps frame pointers.
#pragma once

#include "proc/byte_source.h"

namespace spanfold::proc {

// By the symbols that it exports: Node and its shared library do, for addons.
[[nodiscard]] bool embeds_v8(const ByteSource& source);

}  // namespace spanfold::proc
