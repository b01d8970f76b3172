// SPDX-License-Identifier: Apache-2.0
// Where windows go: a file, a folder, or standard output. Nothing is half written under a final name, no failure of
// write, fsync, close or rename is missed, and what was there before stays until the new file is complete.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "profile/model.h"

namespace spanfold::profile {

struct OutputOptions {
  // "-": standard output (refused on a terminal). An existing folder, or a path that ends in "/": one self-contained
  // file for each message. Anything else: one file for the run. A character device or FIFO is written to directly.
  std::string path = "spanfold.otlp";
  std::uint64_t max_disk_bytes = 0;  // folder only: of our own files in it, oldest removed first; 0: no limit
  std::string version;               // of spanfold
  // Bytes kept in memory for another attempt after a failed write. What does not fit is lost, and said so.
  std::uint64_t max_pending_bytes = std::uint64_t{64} << 20;
  // Pipes and sockets: how long close() waits for a reader that takes nothing.
  int patience_ms = 5000;
};

struct OutputSummary {
  std::uint64_t files = 0;  // written to the end; 0 where no window came
  std::uint64_t bytes = 0;
};

class Output {
 public:
  virtual ~Output() = default;
  Output() = default;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Takes one flush. A window without samples is carried into the next one. An error means that the bytes could not
  // be written now; they are kept for the next write() or close() within max_pending_bytes, so the caller says so and
  // goes on. With code EPIPE (the reader of a stream is gone, or let too much wait) no later write can do better: the
  // caller ends the run. A slow reader never makes it wait. Frames are read before this returns.
  [[nodiscard]] virtual Status write(Window window) = 0;

  // Writes what is carried and pending, and puts the file into place: fsync, the previous file to `PATH.old`, rename.
  // After an error the previous file is as it was, and what was written stays as `PATH.part` when a flush in it is
  // whole; the hint says so. Call once, last.
  [[nodiscard]] virtual Result<OutputSummary> close() = 0;
};

// Opens at once, so that a path that cannot be written shows before anything is recorded. Without close(), a file
// output leaves `PATH.part`, which `report` can read.
[[nodiscard]] Result<std::unique_ptr<Output>> open_output(OutputOptions options);

}  // namespace spanfold::profile
