// SPDX-License-Identifier: Apache-2.0
// Reading the small files of one process through its open folder in /proc: a folder that was opened stays with its
// process, and fails with ESRCH once that is gone, however soon the pid is reused.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"

namespace spanfold::proc {

[[nodiscard]] Fd open_process_folder(std::uint32_t pid);

// Gives what the file holds, piece by piece, at most `max_bytes`. False where it cannot be opened or read.
bool read_pieces_at(int folder, const char* name, std::size_t max_bytes,
                    const std::function<void(std::string_view)>& take);

// The whole of it, cut after `max_bytes`; none where it cannot be opened or read.
[[nodiscard]] std::optional<std::string> read_at(int folder, const char* name, std::size_t max_bytes);

// The target of a symbolic link; empty where there is none.
[[nodiscard]] std::string read_link_at(int folder, const char* name);

}  // namespace spanfold::proc
