// SPDX-License-Identifier: Apache-2.0
#include "profile/pending_stream.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <ctime>
#include <utility>

namespace spanfold::profile {
namespace {

std::string hint_for(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT: return "free some space or choose another -o";
    case EPIPE: return "whoever read it is gone";
    case EACCES:
    case EPERM:
    case EROFS: return "choose a place that you may write to with -o";
    case ENOENT: return "create the folder first";
    default: return {};
  }
}

// While it lives, SIGPIPE is blocked in this thread, and one that came meanwhile is taken back.
class SigpipeGuard {
 public:
  SigpipeGuard() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t waiting;
    sigpending(&waiting);
    was_pending_ = sigismember(&waiting, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  SigpipeGuard(const SigpipeGuard&) = delete;
  SigpipeGuard& operator=(const SigpipeGuard&) = delete;
  ~SigpipeGuard() {
    const int code = errno;
    constexpr timespec kNow{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &kNow);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = code;
  }

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

// What poll() finds; 0 after `timeout_ms`.
int poll_for_writing(int fd, int timeout_ms) {
  pollfd look{.fd = fd, .events = POLLOUT, .revents = 0};
  int found = 0;
  do {
    found = ::poll(&look, 1, timeout_ms);
  } while (found < 0 && errno == EINTR);
  return found > 0 ? look.revents : 0;
}

}  // namespace

Error output_error(std::string what) {
  const int code = errno;
  return Error{.what = std::move(what), .code = code, .hint = hint_for(code)};
}

std::int64_t write_quietly(int fd, std::string_view data) {
  const SigpipeGuard guard;
  return ::write(fd, data.data(), data.size());
}

PendingStream::PendingStream(Fd fd, std::string name, std::uint64_t max_pending, Pace pace)
    : fd_(std::move(fd)), name_(std::move(name)), max_pending_(max_pending) {
  struct stat found {};
  if (pace == Pace::kWait || ::fstat(fd_.get(), &found) != 0) return;
  if (S_ISFIFO(found.st_mode)) kind_ = Kind::kPipe;
  if (S_ISSOCK(found.st_mode)) kind_ = Kind::kSocket;
}

// O_NONBLOCK would do, but belongs to all who share the description: a shell's standard output must stay as it was.
std::int64_t PendingStream::write_some(std::string_view data) {
  if (kind_ == Kind::kSocket) {
    const std::int64_t count = ::send(fd_.get(), data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return count < 0 && errno == EAGAIN ? 0 : count;
  }
  if (kind_ == Kind::kPipe) {
    // A pipe that polls writable has a page free, and PIPE_BUF is no more than that.
    if ((poll_for_writing(fd_.get(), 0) & (POLLOUT | POLLERR)) == 0) return 0;
    return write_quietly(fd_.get(), data.substr(0, PIPE_BUF));
  }
  const std::int64_t count = write_quietly(fd_.get(), data);
  if (count == 0) errno = ENOSPC;
  return count == 0 ? -1 : count;
}

bool PendingStream::reader_is_gone() const {
  return kind_ != Kind::kPlain && (poll_for_writing(fd_.get(), 0) & (POLLERR | POLLHUP)) != 0;
}

Status PendingStream::write_pending() {
  std::size_t done = 0;
  Status status = ok();
  while (done < pending_.size()) {
    const std::int64_t count = write_some(std::string_view(pending_).substr(done));
    if (count == 0) break;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      // A socket's reader may also be reset, which ends the stream all the same.
      if (kind_ != Kind::kPlain && errno == ECONNRESET) errno = EPIPE;
      status = output_error(fmt::format("write {}", name_));
      break;
    }
    done += static_cast<std::size_t>(count);
  }
  written_bytes_ += done;
  pending_.erase(0, done);
  if (pending_.empty()) pending_.shrink_to_fit();
  return status;
}

Status PendingStream::push(std::string_view data) {
  if (lost_) {
    if (kind_ == Kind::kPlain) {
      return Error{.what = fmt::format("write {}: an earlier failure lost data", name_), .hint = hint_for(ENOSPC)};
    }
    return Error{.what = fmt::format("write {}: it lost data that its reader did not take", name_), .code = EPIPE};
  }
  pending_ += data;
  Status status = write_pending();
  if (status && reader_is_gone()) {
    errno = EPIPE;
    status = output_error(fmt::format("write {}", name_));
  }
  if (pending_.size() <= max_pending_) return status;
  if (status && kind_ != Kind::kPlain) {
    status = Error{.what = fmt::format("write {}: its reader lets {} bytes wait", name_, pending_.size()),
                   .code = EPIPE,
                   .hint = "read faster, or write to a file with -o"};
  }
  pending_ = {};
  lost_ = true;
  return status;
}

Status PendingStream::drain(int patience_ms) {
  while (!pending_.empty()) {
    if (poll_for_writing(fd_.get(), patience_ms) == 0) {
      return Error{.what = fmt::format("write {}: its reader took nothing for {} ms, {} bytes are missing", name_,
                                       patience_ms, pending_.size()),
                   .hint = "let it read to the end, or write to a file with -o"};
    }
    if (Status written = write_pending(); !written) return written;
  }
  return ok();
}

Status PendingStream::finish() {
  // EINVAL and the like: pipes and devices have nothing to synchronise.
  if (::fsync(fd_.get()) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EROFS) {
    return output_error(fmt::format("fsync {}", name_));
  }
  if (::close(fd_.release()) != 0) return output_error(fmt::format("close {}", name_));
  return ok();
}

}  // namespace spanfold::profile
