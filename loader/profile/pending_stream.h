// SPDX-License-Identifier: Apache-2.0
// Bytes on their way to a descriptor that may refuse them for a while.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace spanfold::profile {

// An Error from errno for something done to an output, with a hint that fits the errno.
[[nodiscard]] Error output_error(std::string what);

// Writes what the descriptor takes, like write(2), but a reader that is gone is EPIPE and never a signal.
[[nodiscard]] std::int64_t write_quietly(int fd, std::string_view data);

class PendingStream {
 public:
  // `name` is what errors call the destination. At most `max_pending` bytes wait; more than that is lost, and as later
  // bytes lean on earlier ones, a stream that lost some takes no more.
  PendingStream(Fd fd, std::string name, std::uint64_t max_pending)
      : fd_(std::move(fd)), name_(std::move(name)), max_pending_(max_pending) {}

  // Writes what waits, then `data`. After an error the rest waits for the next call: what reached the descriptor is
  // always a prefix of all data, also after a short write.
  Status push(std::string_view data);

  // fsync (where the descriptor knows it) and close, both checked.
  Status finish();

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::uint64_t written_bytes() const { return written_bytes_; }

 private:
  Fd fd_;
  std::string name_;
  std::uint64_t max_pending_;
  std::string pending_;
  std::uint64_t written_bytes_ = 0;
  bool lost_ = false;
};

}  // namespace spanfold::profile
