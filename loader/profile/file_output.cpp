// SPDX-License-Identifier: Apache-2.0
// One file for a run: increments go to FILE.part; at the end FILE becomes FILE.old and FILE.part becomes FILE.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "base/log.h"
#include "profile/carrier.h"
#include "profile/encoder.h"
#include "profile/output_kinds.h"
#include "profile/owner.h"
#include "profile/pending_stream.h"

namespace spanfold::profile {
namespace {

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool is_same(const struct stat& left, const struct stat& right) {
  return left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

// Whether `path` still is the file that `fd` has open.
bool leads_to(const std::string& path, int fd) {
  struct stat there {};
  struct stat here {};
  return ::lstat(path.c_str(), &there) == 0 && ::fstat(fd, &here) == 0 && is_same(there, here);
}

// What a killed run left at `part` is kept as `kept`; what is not ours, or still being written, stops us. Only who
// holds the lock of the file at `part` may move it: see claim().
Status clear_leftover(const std::string& part, const std::string& kept) {
  struct stat found {};
  if (::lstat(part.c_str(), &found) != 0)
    return errno == ENOENT ? ok() : Status(output_error(fmt::format("look at {}", part)));
  const auto given = sudo_owner();
  const bool ours = found.st_uid == ::geteuid() || (given && found.st_uid == given->user);
  if (!S_ISREG(found.st_mode) || !ours) {
    return Error{.what = fmt::format("{} is in the way", part), .hint = "remove it or name another -o"};
  }
  const Fd leftover(::open(part.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!leftover && errno == ENOENT) return ok();
  if (leftover && ::flock(leftover.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Error{.what = fmt::format("{} is being written by another recorder", part), .hint = "name another -o"};
  }
  // Somebody was faster: what is there now is another file, or none.
  if (leftover && !leads_to(part, leftover.get())) return ok();
  // Empty: of a run that wrote nothing, or of a recorder that has yet to lock it, which then makes another.
  if (found.st_size == 0 && (!leftover || (::fstat(leftover.get(), &found) == 0 && found.st_size == 0))) {
    return ::unlink(part.c_str()) == 0 || errno == ENOENT ? ok() : Status(output_error(fmt::format("remove {}", part)));
  }
  if (::rename(part.c_str(), kept.c_str()) != 0) return output_error(fmt::format("rename {}", part));
  log::warning("an earlier recording did not end; what it left is {}", kept);
  return ok();
}

// A new file at `part`, locked, which tells a second recorder on the same path that this one lives. Nothing where
// another recorder came between. File systems without locks go without.
Result<Fd> claim(const std::string& part) {
  Fd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640));
  if (!fd && errno == EEXIST) return Fd();
  if (!fd) return output_error(fmt::format("create {}", part));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Fd();
    log::debug("{} cannot be locked", part);
  }
  if (!leads_to(part, fd.get())) return Fd();
  return fd;
}

// The final rename needs this name; what cannot be replaced shows now and not after hours.
Status check_old(const std::string& old) {
  struct stat found {};
  if (::lstat(old.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) return ok();
  return Error{.what = fmt::format("{} is a folder, and the previous recording would go there", old),
               .hint = "rename it or name another -o"};
}

class FileOutput final : public Output {
 public:
  // `lock` is `fd` once more: the lock is to last until the file is in place, and `fd` is closed before.
  FileOutput(Fd fd, Fd lock, const OutputOptions& options)
      : path_(options.path),
        part_(options.path + ".part"),
        lock_(std::move(lock)),
        encoder_({.mode = EncoderOptions::Mode::kIncrements, .version = options.version}),
        stream_(std::move(fd), part_, options.max_pending_bytes) {}

  Status write(Window window) override {
    const auto complete = carrier_.admit(std::move(window));
    return complete ? push(*complete) : ok();
  }

  Result<OutputSummary> close() override {
    if (Status done = finish(); !done) return after_failure(done.error());
    return OutputSummary{.files = stream_.written_bytes() == 0 ? 0U : 1U, .bytes = stream_.written_bytes()};
  }

 private:
  Status push(const Window& window) {
    std::string bytes;
    encoder_.encode(window, bytes);
    if (first_bytes_ == 0) first_bytes_ = bytes.size();
    return stream_.push(bytes);
  }

  // What was recorded stays, unless not even the first flush is whole.
  Error after_failure(Error error) {
    if (!leads_to(part_, lock_.get())) return error;
    if (first_bytes_ == 0 || stream_.written_bytes() < first_bytes_) {
      ::unlink(part_.c_str());
      return error;
    }
    if (!error.hint.empty()) error.hint += "; ";
    error.hint += fmt::format("what was written is kept in {}, which report reads", part_);
    return error;
  }

  Status finish() {
    const auto last = carrier_.take_last();
    if (Status pushed = last ? push(*last) : stream_.push({}); !pushed) return pushed;
    if (Status finished = stream_.finish(); !finished) return finished;
    if (!leads_to(part_, lock_.get())) {
      return Error{.what = fmt::format("{} was moved or replaced while it was written", part_),
                   .hint = "let nothing but spanfold touch it"};
    }
    if (stream_.written_bytes() == 0) {
      ::unlink(part_.c_str());
      return ok();
    }
    return put_in_place();
  }

  Status put_in_place() {
    const std::string old = path_ + ".old";
    // A second name leaves no moment without a file at `path_`, and `part_` ours until it moves: other recorders look
    // at what has that name. File systems without such names get two renames.
    if (::unlink(old.c_str()) != 0 && errno != ENOENT) return output_error(fmt::format("replace {}", old));
    const bool linked = ::link(path_.c_str(), old.c_str()) == 0;
    if (!linked && errno != ENOENT && ::rename(path_.c_str(), old.c_str()) != 0) {
      return output_error(fmt::format("rename {} to {}", path_, old));
    }
    if (::rename(part_.c_str(), path_.c_str()) != 0) {
      const Error error = output_error(fmt::format("rename {} to {}", part_, path_));
      // Best effort: the error at hand says what matters.
      if (!linked) (void)::rename(old.c_str(), path_.c_str());
      return error;
    }
    const std::string folder = folder_of(path_);
    const Fd parent(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    // A folder that may be written but not read cannot be synchronised; the file itself is.
    if (parent && ::fsync(parent.get()) != 0 && errno != EINVAL) return output_error(fmt::format("fsync {}", folder));
    return ok();
  }

  std::string path_;
  std::string part_;
  Fd lock_;
  std::uint64_t first_bytes_ = 0;  // of the first flush
  WindowCarrier carrier_;
  Encoder encoder_;
  PendingStream stream_;
};

}  // namespace

Result<std::unique_ptr<Output>> open_file_output(const OutputOptions& options) {
  constexpr int kTries = 8;
  const std::string part = options.path + ".part";
  if (Status free = check_old(options.path + ".old"); !free) return free.error();
  for (int left = kTries; left > 0; --left) {
    if (Status cleared = clear_leftover(part, options.path + ".old.part"); !cleared) return cleared.error();
    Result<Fd> fd = claim(part);
    if (!fd) return fd.error();
    if (!*fd) continue;
    if (Status given = give_away(fd->get(), part); !given) log::warning("{}", given.error().message());
    Fd lock(::fcntl(fd->get(), F_DUPFD_CLOEXEC, 0));
    if (!lock) return output_error(fmt::format("open {}", part));
    return std::unique_ptr<Output>(std::make_unique<FileOutput>(*std::move(fd), std::move(lock), options));
  }
  return Error{.what = fmt::format("{} is being written by other recorders", part), .hint = "name another -o"};
}

}  // namespace spanfold::profile
