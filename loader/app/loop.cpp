// SPDX-License-Identifier: Apache-2.0
#include "app/loop.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace spanfold::app {

Result<Loop> Loop::create() {
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return errno_error("create an epoll descriptor");
  return Loop(std::move(epoll));
}

Status Loop::watch(int fd, Action action) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return errno_error("watch a descriptor");
  actions_[fd] = std::move(action);
  return ok();
}

Status Loop::watch_timer(Fd& timer, std::uint64_t interval_ns, bool repeat, Action action) {
  timer.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) return errno_error("create a timer");
  if (Status armed = arm_timer(timer, interval_ns, repeat); !armed) return armed;
  return watch(timer.get(), [&timer, action = std::move(action)] {
    // An earlier action of this round may have armed it anew.
    std::uint64_t times = 0;
    return read(timer.get(), &times, sizeof(times)) < 0 ? ok() : action();
  });
}

void Loop::unwatch(int fd) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  actions_.erase(fd);
}

Status Loop::run() {
  while (!stopped_) {
    std::array<epoll_event, 16> events{};
    const int count = epoll_wait(epoll_.get(), events.data(), events.size(), -1);
    if (count < 0 && errno != EINTR) return errno_error("wait for events");
    for (int i = 0; i < count; ++i) {
      // An earlier action of this round may have taken it out.
      const auto found = actions_.find(events[static_cast<std::size_t>(i)].data.fd);
      if (found == actions_.end()) continue;
      const Action action = found->second;
      if (Status done = action(); !done) return done;
    }
  }
  return ok();
}

Status arm_timer(const Fd& timer, std::uint64_t interval_ns, bool repeat) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  itimerspec when{};
  when.it_value.tv_sec = static_cast<time_t>(interval_ns / kSecond);
  when.it_value.tv_nsec = static_cast<decltype(when.it_value.tv_nsec)>(interval_ns % kSecond);
  if (repeat) when.it_interval = when.it_value;
  if (timerfd_settime(timer.get(), 0, &when, nullptr) != 0) return errno_error("set a timer");
  return ok();
}

Result<Fd> take_signals() {
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&mask, signal);
  if (sigprocmask(SIG_BLOCK, &mask, nullptr) != 0) return errno_error("block signals");
  (void)signal(SIGPIPE, SIG_IGN);
  Fd signals(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return errno_error("create a signal descriptor");
  return signals;
}

}  // namespace spanfold::app
