// SPDX-License-Identifier: Apache-2.0
// The command to record: forked at once, held before its first instruction until it is told to run.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace spanfold::app {

class Child {
 public:
  // Forks; the child waits. Signals that are blocked here are unblocked in the child.
  // `to_stderr`: its standard output goes to standard error, because ours carries the profile.
  // Error: "run COMMAND" where there is no such program.
  static Result<Child> fork(const std::vector<std::string>& command, bool to_stderr);
  Child(Child&&) = default;
  Child& operator=(Child&&) = delete;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Readable once the child has ended.
  [[nodiscard]] int fd() const { return pidfd_.get(); }
  // Lets the child exec. Error: "run COMMAND" with the errno of exec.
  Status run();
  // Asks the child to end (SIGTERM) and waits for it, two seconds at most.
  void end();
  // The shell's form: its exit status, or 128 + the signal that ended it. None while it goes on.
  [[nodiscard]] std::optional<int> status();

 private:
  Child(pid_t pid, Fd pidfd, Fd gate, Fd failure, std::string name);
  [[nodiscard]] bool wait(int milliseconds) const;

  pid_t pid_ = -1;
  bool reaped_ = false;
  int status_ = 0;
  Fd pidfd_;
  Fd gate_;     // closing it without a word makes the child go away
  Fd failure_;  // the child's errno, if exec fails; closed by exec
  std::string name_;
};

}  // namespace spanfold::app
