// SPDX-License-Identifier: Apache-2.0
// One file for a run: increments go to FILE.part; at the end FILE becomes FILE.old and FILE.part becomes FILE.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/log.h"
#include "profile/carrier.h"
#include "profile/encoder.h"
#include "profile/output_kinds.h"
#include "profile/pending_stream.h"

namespace spanfold::profile {
namespace {

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// What a killed run left at `part` is kept as `kept`; what is not ours, or still being written, stops us.
Status clear_leftover(const std::string& part, const std::string& kept) {
  struct stat found {};
  if (::lstat(part.c_str(), &found) != 0)
    return errno == ENOENT ? ok() : Status(output_error(fmt::format("look at {}", part)));
  if (!S_ISREG(found.st_mode) || found.st_uid != ::geteuid()) {
    return Error{.what = fmt::format("{} is in the way", part), .hint = "remove it or name another -o"};
  }
  const Fd leftover(::open(part.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (leftover && ::flock(leftover.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Error{.what = fmt::format("{} is being written by another recorder", part), .hint = "name another -o"};
  }
  if (::rename(part.c_str(), kept.c_str()) != 0) return output_error(fmt::format("rename {}", part));
  log::warning("an earlier recording did not end; what it left is {}", kept);
  return ok();
}

class FileOutput final : public Output {
 public:
  FileOutput(Fd fd, const OutputOptions& options)
      : path_(options.path),
        part_(options.path + ".part"),
        encoder_({.mode = EncoderOptions::Mode::kIncrements, .version = options.version}),
        stream_(std::move(fd), part_, options.max_pending_bytes) {}

  Status write(Window window) override {
    const auto complete = carrier_.admit(std::move(window));
    return complete ? push(*complete) : ok();
  }

  Result<OutputSummary> close() override {
    Status done = finish();
    if (!done) {
      ::unlink(part_.c_str());
      return done.error();
    }
    return OutputSummary{.files = stream_.written_bytes() == 0 ? 0U : 1U, .bytes = stream_.written_bytes()};
  }

 private:
  Status push(const Window& window) {
    std::string bytes;
    encoder_.encode(window, bytes);
    return stream_.push(bytes);
  }

  Status finish() {
    const auto last = carrier_.take_last();
    if (Status pushed = last ? push(*last) : stream_.push({}); !pushed) return pushed;
    if (Status finished = stream_.finish(); !finished) return finished;
    if (stream_.written_bytes() == 0) {
      ::unlink(part_.c_str());
      return ok();
    }
    return put_in_place();
  }

  Status put_in_place() {
    const std::string old = path_ + ".old";
    // Exchanging leaves no moment without a file at `path_`; file systems that cannot do it get two renames.
    if (::renameat2(AT_FDCWD, part_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0) {
      if (::rename(part_.c_str(), old.c_str()) != 0) {
        const Error error = output_error(fmt::format("rename the previous {} to {}", path_, old));
        ::renameat2(AT_FDCWD, part_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE);
        return error;
      }
    } else {
      if (::rename(path_.c_str(), old.c_str()) != 0 && errno != ENOENT) {
        return output_error(fmt::format("rename {} to {}", path_, old));
      }
      if (::rename(part_.c_str(), path_.c_str()) != 0) {
        const Error error = output_error(fmt::format("rename {} to {}", part_, path_));
        // Best effort: the error at hand says what matters.
        (void)::rename(old.c_str(), path_.c_str());
        return error;
      }
    }
    const std::string folder = folder_of(path_);
    const Fd parent(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    // A folder that may be written but not read cannot be synchronised; the file itself is.
    if (parent && ::fsync(parent.get()) != 0 && errno != EINVAL) return output_error(fmt::format("fsync {}", folder));
    return ok();
  }

  std::string path_;
  std::string part_;
  WindowCarrier carrier_;
  Encoder encoder_;
  PendingStream stream_;
};

}  // namespace

Result<std::unique_ptr<Output>> open_file_output(const OutputOptions& options) {
  const std::string part = options.path + ".part";
  if (Status cleared = clear_leftover(part, options.path + ".old.part"); !cleared) return cleared.error();
  Fd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640));
  if (!fd) return output_error(fmt::format("create {}", part));
  // Tells a second recorder on the same path that this one lives. File systems without locks go without.
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) log::debug("{} cannot be locked", part);
  return std::unique_ptr<Output>(std::make_unique<FileOutput>(std::move(fd), options));
}

}  // namespace spanfold::profile
