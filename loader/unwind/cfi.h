// SPDX-License-Identifier: Apache-2.0
// Call-frame information of an ELF file, or of the vDSO's image, as a table of rules: .eh_frame and .debug_frame for
// x86-64 and arm64. Pure and deterministic: equal bytes give equal tables.
#pragma once

#include <optional>

#include "proc/byte_source.h"
#include "unwind/rule.h"

namespace spanfold::unwind {

// None where `source` is no such file, or has no call-frame information. `debug` is the file of debug information that
// was split off from it, if any; one whose code lies elsewhere is not used.
//
// What holds where entries disagree: .eh_frame before .debug_frame, which fills what is left; the later begin from
// there on; of equal begins, the entry that stands first. An entry ends where the next one begins, and nothing comes
// back behind that.
//
// A gap of less than 16 bytes between two functions of a section is padding: the row before goes on, and what is
// really a function of that size without call-frame information is taken for its neighbour. Any other gap is kNone.
//
// Bounds, for files that are large or lie: code from base + 4 GiB on has no rows; the rest beyond
// TableWriter::kMostRows rows, and what comes after Entries::kMostFunctions, is `left_out`. Time grows with the size of
// the section, memory with that of the section and the table. Addresses that are relocated where they are loaded
// (DW_EH_PE_absptr in position-independent code, which no compiler writes) are taken as they stand.
//
// Go's compiler writes nothing on the frame pointer into .debug_frame: for such functions, rules of here would be wrong
// about it.
[[nodiscard]] std::optional<Table> read_table(const proc::ByteSource& source, const proc::ByteSource* debug = nullptr);

}  // namespace spanfold::unwind
