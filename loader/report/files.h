// SPDX-License-Identifier: Apache-2.0
// Paths to a Recording: single files, and the files of folders.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "report/recording.h"

namespace spanfold::report {

// Reads and merges all of `paths`. In a folder, all files that end in .otlp, .pb or .binpb; a file named otherwise is
// read when it is named itself; one that cannot be read is left out with a warning, and is an error only where it was
// named itself or nothing else is left. What a killed recorder left (`.part`) is read up to its last whole field, with
// a warning. Errors name the file, and what to do about it.
[[nodiscard]] Status read_paths(const std::vector<std::string>& paths, Recording& into);

}  // namespace spanfold::report
