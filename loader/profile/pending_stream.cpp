// SPDX-License-Identifier: Apache-2.0
#include "profile/pending_stream.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

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

}  // namespace

Error output_error(std::string what) {
  const int code = errno;
  return Error{.what = std::move(what), .code = code, .hint = hint_for(code)};
}

std::int64_t write_quietly(int fd, std::string_view data) {
  const SigpipeGuard guard;
  return ::write(fd, data.data(), data.size());
}

Status PendingStream::push(std::string_view data) {
  if (lost_)
    return Error{.what = fmt::format("write {}: an earlier failure lost data", name_), .hint = hint_for(ENOSPC)};
  pending_ += data;
  std::size_t done = 0;
  Status status = ok();
  while (done < pending_.size()) {
    const std::int64_t count = write_quietly(fd_.get(), std::string_view(pending_).substr(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      if (count == 0) errno = ENOSPC;
      status = output_error(fmt::format("write {}", name_));
      break;
    }
    done += static_cast<std::size_t>(count);
  }
  written_bytes_ += done;
  pending_.erase(0, done);
  if (pending_.empty()) {
    pending_.shrink_to_fit();
  } else if (pending_.size() > max_pending_) {
    pending_ = {};
    lost_ = true;
  }
  return status;
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
