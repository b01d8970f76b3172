// SPDX-License-Identifier: Apache-2.0
// One epoll loop: descriptors and what to do when they are readable. No threads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "base/fd.h"
#include "base/result.h"

namespace spanfold::app {

class Loop {
 public:
  using Action = std::function<Status()>;

  static Result<Loop> create();
  // `fd` must stay open as long as the loop runs. The action empties it.
  Status watch(int fd, Action action);
  // Makes `timer`, which must stay where it is as long as the loop runs. The action comes each time `interval_ns` has
  // passed, or once after it, and need not empty it.
  Status watch_timer(Fd& timer, std::uint64_t interval_ns, bool repeat, Action action);
  void unwatch(int fd);
  // Runs until an action calls stop() or fails; the failure is returned.
  Status run();
  void stop() { stopped_ = true; }

 private:
  explicit Loop(Fd epoll) : epoll_(std::move(epoll)) {}
  Fd epoll_;
  std::map<int, Action> actions_;
  bool stopped_ = false;
};

// A timer from now on, at this interval.
[[nodiscard]] Status arm_timer(const Fd& timer, std::uint64_t interval_ns, bool repeat);

// Blocks SIGINT, SIGTERM and SIGHUP for this process and gives a descriptor that is readable when one came. SIGPIPE is
// ignored: a closed pipe shows as EPIPE.
[[nodiscard]] Result<Fd> take_signals();

}  // namespace spanfold::app
