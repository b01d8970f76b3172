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

// What a pipe or a socket does when its reader is slower than we are. Files and devices always take their time.
enum class Pace : std::uint8_t {
  kWait,        // writing waits for the reader, for ever if need be
  kNeverBlock,  // what the reader does not take now waits in memory
};

class PendingStream {
 public:
  // `name` is what errors call the destination. At most `max_pending` bytes wait; more than that is lost, and as later
  // bytes lean on earlier ones, a stream that lost some takes no more.
  PendingStream(Fd fd, std::string name, std::uint64_t max_pending, Pace pace = Pace::kWait);

  // Writes what waits, then `data`. After an error the rest waits for the next call: what reached the descriptor is
  // always a prefix of all data, also after a short write. With kNeverBlock that a reader takes nothing now is no
  // error; one that is gone is, with code EPIPE, also without data. So is one that let more than `max_pending` wait.
  Status push(std::string_view data);

  // For the end, with kNeverBlock: waits until all is written, as long as the reader takes some every `patience_ms`.
  Status drain(int patience_ms);

  // fsync (where the descriptor knows it) and close, both checked.
  Status finish();

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::uint64_t written_bytes() const { return written_bytes_; }

 private:
  enum class Kind : std::uint8_t { kPlain, kPipe, kSocket };  // kPlain: write(2) does, whether it blocks or not
  Status write_pending();
  // Bytes written; 0: the reader takes none now; -1: errno.
  std::int64_t write_some(std::string_view data);
  [[nodiscard]] bool reader_is_gone() const;

  Fd fd_;
  std::string name_;
  std::uint64_t max_pending_;
  Kind kind_ = Kind::kPlain;
  std::string pending_;
  std::uint64_t written_bytes_ = 0;
  bool lost_ = false;
};

}  // namespace spanfold::profile
