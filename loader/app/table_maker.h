// SPDX-License-Identifier: Apache-2.0
// Makes tables of unwinding in a thread of its own, so that nobody waits for them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/unwind.h"
#include "proc/byte_source.h"

namespace spanfold::app {

class TableMaker {
 public:
  TableMaker() = default;
  TableMaker(const TableMaker&) = delete;
  TableMaker& operator=(const TableMaker&) = delete;
  ~TableMaker();

  // With all signals blocked: they are the main thread's.
  Status start();
  void want(std::shared_ptr<const proc::ByteSource> file);

  struct Made {
    std::shared_ptr<const proc::ByteSource> file;
    std::optional<UnwindTable> table;  // none: the file has nothing to make it of
  };
  // Readable when some are made.
  [[nodiscard]] int fd() const { return ready_.get(); }
  [[nodiscard]] std::vector<Made> take();

 private:
  void run();

  Fd ready_;  // an eventfd
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::deque<std::shared_ptr<const proc::ByteSource>> wanted_;
  std::vector<Made> made_;
};

}  // namespace spanfold::app
