// SPDX-License-Identifier: Apache-2.0
// A JIT compiler's log that grows while it is read: whoever read it in pieces must know what one knows who came late.
#pragma once

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <limits>
#include <memory>

#include "fuzz/fuzz.h"
#include "proc/jit_log.h"

namespace spanfold::fuzz {

constexpr std::uint32_t kInnerPid = 7;

// A file in memory, and the log that reads it.
class GrowingLog {
 public:
  explicit GrowingLog(proc::JitLog::Form form) : file_(::memfd_create("log", MFD_CLOEXEC)) {
    check(static_cast<bool>(file_), "memory for a file");
    struct stat status {};
    check(::fstat(file_.get(), &status) == 0, "its status");
    log_ = std::make_unique<proc::JitLog>(form, Fd(::dup(file_.get())), status, kInnerPid, budget_);
  }
  void append(std::string_view text) {
    check(::write(file_.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()), "room for the file");
    now_ns_ += 1'000'000'000;
    log_->read_new(now_ns_);
  }
  // The name that an address has, and whether it has an owner at all.
  [[nodiscard]] std::pair<bool, std::string> name(std::uint64_t address) const {
    const proc::JitCode* code = log_->find(address);
    return code == nullptr ? std::pair(false, std::string()) : std::pair(true, log_->name_of(*code));
  }
  [[nodiscard]] const proc::JitBudget& budget() const { return budget_; }

 private:
  proc::JitBudget budget_;
  Fd file_;
  std::unique_ptr<proc::JitLog> log_;
  std::uint64_t now_ns_ = 0;
};

// Reads with `reader` what can be read of `text`; none where it makes no sense.
inline bool read_whole(proc::JitReader& reader, std::string_view text, proc::JitTable& table) {
  std::uint64_t at = 0;
  while (at < text.size()) {
    const auto taken = reader.take(text.substr(at), static_cast<std::uint32_t>(at), table);
    if (!taken) return false;
    if (*taken == 0) break;
    at += *taken;
    if (at > std::numeric_limits<std::uint32_t>::max()) return false;
  }
  return true;
}

inline void compare(proc::JitLog::Form form, const proc::JitTable& table, std::string_view text, std::uint32_t seed) {
  GrowingLog whole(form);
  whole.append(text);
  GrowingLog grown(form);
  in_pieces(text, seed, text.size() / 2 + 1, [&](std::string_view piece) { grown.append(piece); });
  std::uint64_t end = 0;
  for (const proc::JitCode& code : table.ranges()) {
    check(code.bytes > 0 && code.start >= end, "ranges are in order and disjoint");
    end = code.start + code.bytes;
    for (const std::uint64_t address : {code.start, end - 1, end}) {
      const auto name = whole.name(address);
      check(name == grown.name(address), "a file that grew says what a whole one says");
      check(name.first == (table.find(address) != nullptr), "the log knows what the table knows");
      check(contains(text, name.second), "a name stands in the file");
    }
  }
}

}  // namespace spanfold::fuzz
