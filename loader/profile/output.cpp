// SPDX-License-Identifier: Apache-2.0
// Which kind of output a path means, and the outputs that write straight to a descriptor.
#include "profile/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "profile/carrier.h"
#include "profile/encoder.h"
#include "profile/output_kinds.h"
#include "profile/pending_stream.h"

namespace spanfold::profile {
namespace {

class StreamOutput final : public Output {
 public:
  StreamOutput(Fd fd, const OutputOptions& options)
      : encoder_({.mode = EncoderOptions::Mode::kIncrements, .version = options.version}),
        stream_(std::move(fd), options.path == "-" ? "standard output" : options.path, options.max_pending_bytes,
                Pace::kNeverBlock),
        patience_ms_(options.patience_ms) {}

  Status write(Window window) override {
    const auto complete = carrier_.admit(std::move(window));
    // Without data it still tells whether the reader is there.
    return complete ? push(*complete) : stream_.push({});
  }

  Result<OutputSummary> close() override {
    if (const auto last = carrier_.take_last()) {
      if (Status pushed = push(*last); !pushed) return pushed.error();
    } else if (Status pushed = stream_.push({}); !pushed) {
      return pushed.error();
    }
    if (Status drained = stream_.drain(patience_ms_); !drained) return drained.error();
    if (Status finished = stream_.finish(); !finished) return finished.error();
    return OutputSummary{.files = stream_.written_bytes() == 0 ? 0U : 1U, .bytes = stream_.written_bytes()};
  }

 private:
  Status push(const Window& window) {
    std::string bytes;
    encoder_.encode(window, bytes);
    return stream_.push(bytes);
  }

  WindowCarrier carrier_;
  Encoder encoder_;
  PendingStream stream_;
  int patience_ms_;
};

Error refuse_terminal() {
  return Error{.what = "profiles are bytes and do not belong on a terminal",
               .hint = "redirect standard output, or name a file with -o",
               .failure = Failure::kUsage};
}

Result<std::unique_ptr<Output>> open_stdout(const OutputOptions& options) {
  if (::isatty(STDOUT_FILENO) == 1) return refuse_terminal();
  Fd fd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!fd) return output_error("use standard output");
  return make_stream_output(std::move(fd), options);
}

// A device is written to as it is: never renamed over, never removed.
Result<std::unique_ptr<Output>> open_special(const OutputOptions& options) {
  Fd fd(::open(options.path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!fd && errno == ENXIO) {
    Error error = output_error(fmt::format("open {}", options.path));
    error.hint = "start whoever reads it first";
    return error;
  }
  if (!fd) return output_error(fmt::format("open {}", options.path));
  if (::isatty(fd.get()) == 1) return refuse_terminal();
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return output_error(fmt::format("open {}", options.path));
  }
  return make_stream_output(std::move(fd), options);
}

// Where a symbolic link leads. Links that others made are not followed: in a shared folder they are traps.
Result<std::string> follow_link(const std::string& path, const struct stat& link) {
  if (link.st_uid != ::geteuid() && link.st_uid != 0) {
    return Error{.what = fmt::format("{} is a symbolic link of another user", path), .hint = "name another -o"};
  }
  const std::unique_ptr<char, decltype(&std::free)> target(::realpath(path.c_str(), nullptr), &std::free);
  if (!target && errno == ENOENT) {
    return Error{.what = fmt::format("{} is a symbolic link to something that is not there", path),
                 .hint = "remove the link, or make what it leads to"};
  }
  if (!target) return output_error(fmt::format("follow {}", path));
  return std::string(target.get());
}

}  // namespace

std::unique_ptr<Output> make_stream_output(Fd fd, const OutputOptions& options) {
  return std::make_unique<StreamOutput>(std::move(fd), options);
}

Result<std::unique_ptr<Output>> open_output(OutputOptions options) {
  if (options.path.empty()) {
    return Error{
        .what = "the output has no name", .hint = "name a file, a folder or - with -o", .failure = Failure::kUsage};
  }
  if (options.path == "-" || options.path == "/dev/stdout") return open_stdout(options);
  if (options.path.back() == '/') return open_folder_output(options);
  struct stat found {};
  if (::lstat(options.path.c_str(), &found) != 0) {
    if (errno == ENOENT) return open_file_output(options);
    return output_error(fmt::format("open {}", options.path));
  }
  if (S_ISLNK(found.st_mode)) {
    Result<std::string> target = follow_link(options.path, found);
    if (!target) return target.error();
    options.path = *std::move(target);
    if (::lstat(options.path.c_str(), &found) != 0) return output_error(fmt::format("open {}", options.path));
  }
  if (S_ISREG(found.st_mode)) return open_file_output(options);
  if (S_ISDIR(found.st_mode)) return open_folder_output(options);
  if (S_ISCHR(found.st_mode) || S_ISFIFO(found.st_mode)) return open_special(options);
  return Error{.what = fmt::format("{} is no file, folder, FIFO or character device", options.path),
               .hint = "name another -o"};
}

}  // namespace spanfold::profile
