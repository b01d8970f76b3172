// SPDX-License-Identifier: Apache-2.0
#include "report/deliver.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/fd.h"
#include "profile/pending_stream.h"

namespace spanfold::report {
namespace {

Status to_stdout(std::string_view text) {
  while (!text.empty()) {
    const auto count = profile::write_quietly(STDOUT_FILENO, text);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EPIPE) return ok();
    if (count <= 0) return profile::output_error("write standard output");
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return ok();
}

// In parts: a stream takes what it is given as a copy.
Status push_all(profile::PendingStream& stream, std::string_view text) {
  constexpr std::size_t kPart = std::size_t{1} << 20;
  for (; text.size() > kPart; text.remove_prefix(kPart)) {
    if (Status pushed = stream.push(text.substr(0, kPart)); !pushed) return pushed;
  }
  return stream.push(text);
}

Status to_special(std::string_view text, const std::string& path) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC));
  if (!fd) return profile::output_error(fmt::format("open {}", path));
  profile::PendingStream stream(std::move(fd), path, 0);
  Status done = push_all(stream, text);
  return done ? stream.finish() : done;
}

Status to_file(std::string_view text, const std::string& path) {
  const std::string part = fmt::format("{}.{}.part", path, ::getpid());
  Fd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!fd) return profile::output_error(fmt::format("create {}", part));
  profile::PendingStream stream(std::move(fd), path, 0);
  Status done = push_all(stream, text);
  if (done) done = stream.finish();
  if (done && ::rename(part.c_str(), path.c_str()) != 0) done = profile::output_error(fmt::format("rename {}", part));
  if (!done) ::unlink(part.c_str());
  return done;
}

}  // namespace

bool is_stdout(const std::string& path) { return path == "-" || path == "/dev/stdout"; }

Status deliver(std::string_view text, const std::string& path) {
  if (is_stdout(path)) return to_stdout(text);
  struct stat found {};
  // Follows links: a device behind one is still a device.
  const bool special = ::stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode);
  return special ? to_special(text, path) : to_file(text, path);
}

}  // namespace spanfold::report
