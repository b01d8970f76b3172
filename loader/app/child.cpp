// SPDX-License-Identifier: Apache-2.0
#include "app/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/log.h"

namespace spanfold::app {
namespace {

constexpr int kEndMilliseconds = 2000;
constexpr int kSignalStatus = 128;

Result<std::pair<Fd, Fd>> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error("make a pipe");
  return std::pair{Fd(ends[0]), Fd(ends[1])};
}

constexpr const char* kRunHint = "the command after -- must be a program, by path or in PATH";

// 0, or the errno that exec will give: known before anything is recorded, so that a slip of the pen costs no recording.
int why_not_runnable(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0 ? 0 : errno;
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/bin:/bin" : path;
  while (true) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    if (access(fmt::format("{}/{}", folder.empty() ? "." : folder, name).c_str(), X_OK) == 0) return 0;
    if (folder.size() == rest.size()) return ENOENT;
    rest.remove_prefix(folder.size() + 1);
  }
}

// In the child: nothing but what is safe between fork and exec.
[[noreturn]] void become(const std::vector<char*>& argv, int gate, int failure, bool to_stderr) {
  char go = 0;
  if (read(gate, &go, 1) != 1) _exit(0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  (void)signal(SIGPIPE, SIG_DFL);
  if (to_stderr) dup2(STDERR_FILENO, STDOUT_FILENO);
  execvp(argv[0], argv.data());
  const int code = errno;
  [[maybe_unused]] const auto written = write(failure, &code, sizeof(code));
  _exit(127);
}

}  // namespace

Child::Child(pid_t pid, Fd pidfd, Fd gate, Fd failure, std::string name)
    : pid_(pid),
      pidfd_(std::move(pidfd)),
      gate_(std::move(gate)),
      failure_(std::move(failure)),
      name_(std::move(name)) {}

Child::~Child() {
  if (pid_ <= 0 || reaped_ || !pidfd_) return;
  // Not let go yet: it leaves by itself. Running: it outlives us, as the log has said.
  const bool waiting = static_cast<bool>(gate_);
  gate_.reset();
  if (waiting) waitpid(pid_, nullptr, 0);
}

Result<Child> Child::fork(const std::vector<std::string>& command, bool to_stderr) {
  if (const int code = why_not_runnable(command.front()); code != 0) {
    return Error{.what = fmt::format("run {}", command.front()), .code = code, .hint = kRunHint};
  }
  auto gate = make_pipe();
  if (!gate) return gate.error();
  auto failure = make_pipe();
  if (!failure) return failure.error();
  std::vector<std::string> words = command;
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) return errno_error("fork");
  if (pid == 0) {
    // The child's own copy of the writing end would keep the gate open for ever.
    gate->second.reset();
    become(argv, gate->first.get(), failure->second.get(), to_stderr);
  }
  Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) return errno_error("watch the command", "needs Linux 5.3");
  return Child(pid, std::move(pidfd), std::move(gate->second), std::move(failure->first), command.front());
}

Status Child::run() {
  const char go = 1;
  if (write(gate_.get(), &go, 1) != 1) return errno_error("let the command run");
  gate_.reset();
  int code = 0;
  // The child holds the only writing end, and exec closes it: nothing to read means that exec went well.
  if (read(failure_.get(), &code, sizeof(code)) == sizeof(code)) {
    waitpid(pid_, &status_, 0);
    reaped_ = true;
    return Error{.what = fmt::format("run {}", name_), .code = code, .hint = kRunHint};
  }
  return ok();
}

bool Child::wait(int milliseconds) const {
  pollfd ended{.fd = pidfd_.get(), .events = POLLIN};
  return poll(&ended, 1, milliseconds) == 1;
}

void Child::end() {
  if (reaped_ || wait(0)) return;
  kill(pid_, SIGTERM);
  if (!wait(kEndMilliseconds)) log::warning("{} (pid {}) did not end on SIGTERM and goes on", name_, pid_);
}

std::optional<int> Child::status() {
  if (!reaped_) {
    if (waitpid(pid_, &status_, WNOHANG) != pid_) return std::nullopt;
    reaped_ = true;
  }
  return WIFSIGNALED(status_) ? kSignalStatus + WTERMSIG(status_) : WEXITSTATUS(status_);
}

}  // namespace spanfold::app
