// SPDX-License-Identifier: Apache-2.0
// The kinds of Output, for open_output().
#pragma once

#include <memory>

#include "base/fd.h"
#include "profile/output.h"

namespace spanfold::profile {

// Standard output, a FIFO or a character device: one message in increments, straight to the descriptor.
[[nodiscard]] std::unique_ptr<Output> make_stream_output(Fd fd, const OutputOptions& options);

// A regular file at options.path, through `.part`.
[[nodiscard]] Result<std::unique_ptr<Output>> open_file_output(const OutputOptions& options);

// A folder at options.path, made when it is missing.
[[nodiscard]] Result<std::unique_ptr<Output>> open_folder_output(const OutputOptions& options);

}  // namespace spanfold::profile
