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

// Readable each time `interval_ns` has passed, or once after it. Empty it with drain_timer.
[[nodiscard]] Result<Fd> make_timer(std::uint64_t interval_ns, bool repeat);
void drain_timer(const Fd& timer);
// From now on at another interval.
[[nodiscard]] Status arm_timer(const Fd& timer, std::uint64_t interval_ns, bool repeat);

// Blocks SIGINT, SIGTERM and SIGHUP for this process and gives a descriptor that is readable when one came. SIGPIPE is
// ignored: a closed pipe shows as EPIPE.
[[nodiscard]] Result<Fd> take_signals();

}  // namespace spanfold::app
