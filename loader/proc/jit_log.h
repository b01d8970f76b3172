// SPDX-License-Identifier: Apache-2.0
// One file in which a JIT compiler says what it compiled, and to which it appends. The file may belong to anybody in a
// container: it is read by pread, in bounded portions, and no more often than that is worth.
#pragma once

#include <sys/stat.h>
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/fd.h"
#include "proc/jit_reader.h"

namespace spanfold::proc {

// What the logs of all processes may take together, and what became of what was looked up in them.
struct JitBudget {
  std::size_t files_left = 128;         // descriptors
  std::size_t ranges_left = 4UL << 20;  // 16 bytes each
  std::uint64_t named = 0;              // addresses of generated code
  std::uint64_t unnamed = 0;
  std::uint64_t ranges_left_out = 0;  // of logs that say more than fits
  std::uint64_t given_up = 0;         // logs that make no sense, or are longer than 4 GiB
};

class JitLog {
 public:
  enum class Form : std::uint8_t { kPerfMap, kJitDump };

  // `inner_pid` is that of the process in its own words. Takes a file out of the budget and gives it back at its end.
  JitLog(Form form, Fd fd, const struct stat& status, std::uint32_t inner_pid, JitBudget& budget);
  ~JitLog();
  JitLog(const JitLog&) = delete;
  JitLog& operator=(const JitLog&) = delete;

  // Takes in what was appended, at most every 100 ms. A file that was truncated or written over is read anew.
  void read_new(std::uint64_t now_ns);

  // Who owns `address`; null where nobody does, and where not all of the file has been read: what comes later in it
  // may say otherwise.
  [[nodiscard]] const JitCode* find(std::uint64_t address) const { return caught_up_ ? table_.find(address) : nullptr; }
  // Reads the name out of the file; empty where it is not there any more.
  [[nodiscard]] std::string name_of(const JitCode& code) const;

  [[nodiscard]] bool is_file(const struct stat& status) const {
    return status.st_dev == device_ && status.st_ino == inode_;
  }
  [[nodiscard]] bool has_no_link() const { return !linked_; }
  // Counts the times that the file was begun anew: what was known of places in it is void.
  [[nodiscard]] std::uint32_t edition() const { return edition_; }
  // Grows with each change of what find() gives.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }
  [[nodiscard]] std::size_t memory_bytes() const { return table_.memory_bytes(); }

 private:
  void start_over();
  void give_up();
  void settle();
  [[nodiscard]] bool tail_is_there() const;
  // True where the end was reached.
  bool read_portion(std::uint64_t size, std::uint64_t most);
  [[nodiscard]] std::size_t read_at(std::uint64_t offset, char* into, std::size_t bytes) const;

  Form form_;
  Fd fd_;
  dev_t device_;
  ino_t inode_;
  std::uint32_t inner_pid_;
  JitBudget& budget_;
  std::unique_ptr<JitReader> reader_;
  JitTable table_;
  std::uint64_t next_ = 0;  // offset of the first entry that was not taken
  std::uint64_t size_ = 0;  // of the file at the last look
  timespec modified_{};     // at the last look
  std::string tail_;        // what stood at the end then
  bool caught_up_ = false;
  bool given_up_ = false;
  bool linked_ = true;
  std::uint32_t edition_ = 0;
  std::uint64_t changes_ = 0;
  std::uint64_t looked_ns_ = 0;
  std::uint64_t dear_until_ns_ = 0;  // until then only small portions
};

}  // namespace spanfold::proc
