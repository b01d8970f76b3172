// SPDX-License-Identifier: Apache-2.0
// The process that reads debug information. Files that other people wrote are given to a library there that was not
// made for hostile ones: so it has no rights, cannot open anything, holds a bounded amount of memory, and may crash or
// hang without harm. It starts at the first question, and ends when it was not asked for a minute.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "proc/line_wire.h"

namespace spanfold::proc {

class LineWorker {
 public:
  LineWorker() = default;
  ~LineWorker();
  LineWorker(const LineWorker&) = delete;
  LineWorker& operator=(const LineWorker&) = delete;

  // Asks about `addresses` (ELF virtual addresses, at most kMostLineAddresses) of the open file `fd`, which the caller
  // keeps. False where the worker cannot be started or reached. No question may be outstanding.
  [[nodiscard]] bool ask(int fd, std::span<const std::uint64_t> addresses);
  [[nodiscard]] bool is_asked() const { return asked_ != 0; }

  enum class State : std::uint8_t { kWaiting, kAnswered, kFailed, kAskAgain };
  // Waits for the answer for at most `milliseconds`. kFailed: it crashed, or said nonsense, or had more than a minute;
  // it is gone, and the next question starts a new one. kAskAgain: it has gone, too, but had answered before: that may
  // be for what it still held of other files, or since it was not asked for so long.
  [[nodiscard]] State wait(int milliseconds, std::vector<RawLines>& answer);

 private:
  bool start();
  void stop();
  State take(std::vector<RawLines>& answer);

  pid_t pid_ = -1;
  Fd socket_;
  std::size_t asked_ = 0;  // addresses of the question that is outstanding; 0: none is
  std::uint64_t asked_ns_ = 0;
  std::string received_;
  std::size_t answers_ = 0;  // of this one
};

}  // namespace spanfold::proc
