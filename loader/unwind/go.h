// SPDX-License-Identifier: Apache-2.0
// Rules of a Go program's own code, out of the table that its runtime needs (proc/go_table.h): how deep the stack is at
// each instruction. Go writes no .eh_frame, and nothing on the frame pointer into .debug_frame.
#pragma once

#include <optional>

#include "proc/byte_source.h"
#include "unwind/rule.h"

namespace spanfold::unwind {

// None where the file is no Go program for x86-64. Code of other languages has no rows.
[[nodiscard]] std::optional<Table> read_go_table(const proc::ByteSource& source);

// The rows of `inner` from where it begins to where it ends, those of `outer` around it.
[[nodiscard]] Table laid_over(const Table& outer, const Table& inner);

}  // namespace spanfold::unwind
