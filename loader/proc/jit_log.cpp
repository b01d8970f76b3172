// SPDX-License-Identifier: Apache-2.0
#include "proc/jit_log.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "base/clock.h"
#include "proc/jit_dump.h"
#include "proc/perf_map.h"

namespace spanfold::proc {
namespace {

constexpr std::uint64_t kPauseNs = 100'000'000;
constexpr std::size_t kPieceBytes = 64UL * 1024;
static_assert(kPieceBytes > JitReader::kMaxEntryBytes);
// A large file is read in portions, so that nothing else has to wait for long; portions take a hundredth of the time.
constexpr std::uint64_t kLargePortionBytes = 32UL << 20;
constexpr std::uint64_t kSmallPortionBytes = 1UL << 20;
constexpr std::uint64_t kDearTimesCost = 100;
constexpr std::size_t kMaxPending = 256UL * 1024;  // entries, 4 MB
constexpr std::size_t kMaxRanges = 1UL << 20;      // 16 MiB
constexpr std::size_t kTailBytes = 64;

}  // namespace

JitLog::JitLog(Form form, Fd fd, const struct stat& status, std::uint32_t inner_pid, JitBudget& budget)
    : form_(form),
      fd_(std::move(fd)),
      device_(status.st_dev),
      inode_(status.st_ino),
      inner_pid_(inner_pid),
      budget_(budget) {
  --budget_.files_left;
  start_over();
}

JitLog::~JitLog() {
  budget_.ranges_left += table_.size();
  ++budget_.files_left;
}

void JitLog::start_over() {
  budget_.ranges_left += table_.size();
  table_.clear();
  if (form_ == Form::kPerfMap) {
    reader_ = std::make_unique<PerfMap>();
  } else {
    reader_ = std::make_unique<JitDump>(inner_pid_);
  }
  next_ = size_ = 0;
  tail_.clear();
  caught_up_ = false;
  ++edition_;
  ++changes_;
}

void JitLog::give_up() {
  start_over();
  given_up_ = true;
  ++budget_.given_up;
}

void JitLog::settle() {
  const std::size_t before = table_.size();
  budget_.ranges_left_out += table_.settle(std::min(kMaxRanges, before + budget_.ranges_left));
  budget_.ranges_left = budget_.ranges_left + before - table_.size();
}

std::size_t JitLog::read_at(std::uint64_t offset, char* into, std::size_t bytes) const {
  ssize_t got = 0;
  do {
    got = ::pread(fd_.get(), into, bytes, static_cast<off_t>(offset));
  } while (got < 0 && errno == EINTR);
  return static_cast<std::size_t>(std::max<ssize_t>(got, 0));
}

bool JitLog::tail_is_there() const {
  std::string now(tail_.size(), '\0');
  now.resize(read_at(size_ - tail_.size(), now.data(), now.size()));
  return now == tail_;
}

bool JitLog::read_portion(std::uint64_t size, std::uint64_t most) {
  std::string piece(std::min<std::uint64_t>(kPieceBytes, size - std::min(next_, size)), '\0');
  const std::uint64_t stop = next_ + most;
  while (next_ < size) {
    if (next_ >= stop) return false;
    const std::size_t got = read_at(next_, piece.data(), std::min<std::uint64_t>(piece.size(), size - next_));
    if (got == 0) return false;  // truncated since
    const auto offset = static_cast<std::uint32_t>(next_);
    const auto taken = reader_->take(std::string_view(piece).substr(0, got), offset, table_);
    if (!taken || next_ + *taken > std::numeric_limits<std::uint32_t>::max()) {
      give_up();
      return false;
    }
    if (*taken == 0) break;  // the last entry is not complete
    next_ += *taken;
    if (table_.pending() >= kMaxPending) settle();
  }
  return true;
}

void JitLog::read_new(std::uint64_t now_ns) {
  if (given_up_ || (looked_ns_ != 0 && now_ns - looked_ns_ < kPauseNs)) return;
  looked_ns_ = now_ns;
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) return give_up();
  linked_ = status.st_nlink > 0;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const bool same =
      size == size_ && status.st_mtim.tv_sec == modified_.tv_sec && status.st_mtim.tv_nsec == modified_.tv_nsec;
  if (same && caught_up_) return;
  if (size < size_ || !tail_is_there()) start_over();
  const std::uint64_t begin_ns = boot_clock_ns();
  caught_up_ = read_portion(size, now_ns >= dear_until_ns_ ? kLargePortionBytes : kSmallPortionBytes);
  settle();
  ++changes_;
  if (given_up_) return;
  size_ = size;
  modified_ = status.st_mtim;
  tail_.resize(std::min<std::uint64_t>(size, kTailBytes));
  tail_.resize(read_at(size - tail_.size(), tail_.data(), tail_.size()));
  dear_until_ns_ = std::max(dear_until_ns_, now_ns + kDearTimesCost * (boot_clock_ns() - begin_ns));
}

std::string JitLog::name_of(const JitCode& code) const {
  std::string text(JitReader::kMaxEntryBytes, '\0');
  text.resize(read_at(reader_->named_at(code), text.data(), text.size()));
  return std::string(reader_->name(text, code));
}

}  // namespace spanfold::proc
