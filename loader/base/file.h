// SPDX-License-Identifier: Apache-2.0
// Whole files in, whole buffers out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace spanfold {

// Opens for reading; never becomes a controlling terminal, never blocks on a FIFO, not inherited by exec.
// Error: "open PATH" with errno; hints at root on EACCES and EPERM.
[[nodiscard]] Result<Fd> open_read(const std::string& path);

// Reads up to the end, also of files in /proc whose size is unknown. Error: "open PATH" or "read PATH" with errno;
// EFBIG where the file is longer than `max_bytes`, EISDIR for a folder, EAGAIN for a FIFO without data.
[[nodiscard]] Result<std::string> read_file(const std::string& path, std::size_t max_bytes);

// Writes all of `data` to `fd`, over short writes and interruptions. `name` is what the error calls the destination:
// "write NAME" with errno. How much was written before an error is unknown.
[[nodiscard]] Status write_all(int fd, std::string_view data, std::string_view name);

}  // namespace spanfold
