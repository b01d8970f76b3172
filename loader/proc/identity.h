// SPDX-License-Identifier: Apache-2.0
// Whether a pid is still the process, and still runs the program, that was sampled.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/process.h"

namespace spanfold::proc {

struct ProcessStat {
  std::uint64_t start_ticks = 0;  // field 22: since boot, in clock ticks of the reader's time namespace
  ImageTag image;                 // fields 26, 27, 28; zeros where the process has no memory (any more)
};

// The text of /proc/PID/stat (proc(5)). The program's name, field 2, may hold spaces, parentheses and newlines: the
// last parenthesis ends it. None where the text has another form.
[[nodiscard]] std::optional<ProcessStat> parse_stat(std::string_view text);

// Reads it through an open folder /proc/PID, so that a reused pid cannot answer.
[[nodiscard]] std::optional<ProcessStat> read_stat(int process_folder);

// What the clocks of this process's time namespace are ahead of the kernel's own boot clock.
[[nodiscard]] std::int64_t boot_clock_shift_ns();

// The start time by the kernel's boot clock, cut to a clock tick.
[[nodiscard]] std::uint64_t start_of(const ProcessStat& stat);

struct ProcessStatus {
  std::uint32_t inner_pid = 0;  // in the innermost pid namespace: what the process takes its own pid to be
  std::uint32_t user_id = 0;    // effective, in the reader's user namespace, as those of files are
};

// The text of /proc/PID/status (proc(5)), lines "NSpid:" and "Uid:". The program's name, the first line, has its
// newlines escaped. None where one of them is missing or has another form.
[[nodiscard]] std::optional<ProcessStatus> parse_status(std::string_view text);
[[nodiscard]] std::optional<ProcessStatus> read_status(int process_folder);

// True where `stat` has the start time of `key`.
[[nodiscard]] bool is_same_process(const ProcessStat& stat, const ProcessKey& key);
// True where it also shows `image`, which must be one.
[[nodiscard]] bool is_same_image(const ProcessStat& stat, const ProcessKey& key, const ImageTag& image);

}  // namespace spanfold::proc
