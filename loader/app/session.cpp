// SPDX-License-Identifier: Apache-2.0
#include "app/session.h"

#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/cgroup_filter.h"
#include "app/child.h"
#include "app/diagnosis.h"
#include "app/gather.h"
#include "app/instance_lock.h"
#include "app/loop.h"
#include "app/progress.h"
#include "app/rate.h"
#include "app/recorder_setup.h"
#include "app/version.h"
#include "app/window_time.h"
#include "base/clock.h"
#include "base/log.h"
#include "bpf/recorder.h"
#include "profile/output.h"

namespace spanfold::app {
namespace {

constexpr std::uint64_t kWarmUpNs = 200'000'000;
// Flushes on time, in a row, that end a burst.
constexpr int kCalmFlushes = 4;

Loop::Action stop_action(Loop& loop) {
  return [&loop]() -> Status {
    loop.stop();
    return ok();
  };
}

std::uint64_t patience_ns() { return test_value("SPANFOLD_TEST_PATIENCE_NS", kPatienceNs); }

class Session {
 public:
  explicit Session(const RecordOptions& options)
      : options_(options),
        gather_({.local_symbols = options.local_symbols,
                 .lines = options.lines,
                 .background = options.background,
                 .span_times = options.span_times}),
        diagnosis_(options.context_path, patience_ns()),
        rate_({.limit_percent = options.max_overhead_percent,
               .frequency_hz = options.frequency_hz,
               .slice_ns = patience_ns() / 2}) {}

  Result<int> run();

 private:
  Status watch_all(Loop& loop);
  Status watch_cgroups(Loop& loop);
  Status start();
  Status drain();
  bool drain_in_between();
  [[nodiscard]] bool is_awaited() const;
  void look_at_processes();
  Status sweep();
  Status flush(bool last);
  Status flush_if_full();
  Status flush_on_time();
  Result<int> finish(const Status& outcome);
  Status on_target_gone(Loop& loop, int fd);
  Status on_signal(Loop& loop);
  void take_stock(const bpf::Bank& bank, const profile::Window& window);
  Status write_window(profile::Window window, bool last);

  const RecordOptions& options_;
  Gather gather_;
  Diagnosis diagnosis_;
  Rate rate_;
  Progress progress_;
  std::optional<Child> child_;
  std::unique_ptr<bpf::Recorder> recorder_;
  std::unique_ptr<profile::Output> output_;
  Fd lock_;
  Fd signals_;
  Fd flush_timer_;
  Fd sweep_timer_;
  Fd cgroup_timer_;
  Fd warm_up_timer_;
  Fd end_timer_;
  Fd grace_timer_;
  bool interrupted_ = false;
  bool ending_ = false;
  std::vector<Fd> targets_;
  CgroupFilter cgroups_;
  profile::Accounting total_;
  std::uint64_t window_start_ns_ = 0;  // boot clock
  BootToUnix unix_ = BootToUnix::now();
  std::uint64_t sweep_period_ns_ = 0;  // of the timer
  int burst_ = 0;                      // flushes on time that end it; 0: none is going on
  std::uint64_t stays_lost_ = 0;       // where their times are asked for
  bool write_failed_ = false;          // and said so
};

Status Session::on_target_gone(Loop& loop, int fd) {
  loop.unwatch(fd);
  std::erase_if(targets_, [fd](const Fd& target) { return target.get() == fd; });
  if (targets_.empty() && options_.tids.empty()) loop.stop();
  return ok();
}

// A command gets the interrupt of a terminal as we do, and may have work to finish: its end is the recording's. Where
// the interrupt came for us alone, it has two seconds. Whatever comes second, and every other signal, ends the
// recording.
Status Session::on_signal(Loop& loop) {
  constexpr std::uint64_t kGraceNs = 2'000'000'000;
  signalfd_siginfo info{};
  if (read(signals_.get(), &info, sizeof(info)) != sizeof(info)) return ok();
  if (info.ssi_signo != SIGINT || !child_ || interrupted_) {
    loop.stop();
    return ok();
  }
  interrupted_ = true;
  if (info.ssi_code == SI_KERNEL) return ok();
  return loop.watch_timer(grace_timer_, kGraceNs, false, stop_action(loop));
}

Status Session::watch_all(Loop& loop) {
  if (options_.local_symbols) {
    // The kernel's symbols, once the command runs and before the first flush wants them.
    auto prepare = [this]() -> Status {
      gather_.prepare();
      return ok();
    };
    if (Status watched = loop.watch_timer(warm_up_timer_, kWarmUpNs, false, prepare); !watched) return watched;
  }
  if (options_.duration_ns != 0) {
    Status watched = loop.watch_timer(end_timer_, options_.duration_ns, false, stop_action(loop));
    if (!watched) return watched;
  }
  if (child_) {
    if (Status watched = loop.watch(child_->fd(), stop_action(loop)); !watched) return watched;
  }
  for (const Fd& target : targets_) {
    const int fd = target.get();
    if (Status watched = loop.watch(fd, [this, &loop, fd] { return on_target_gone(loop, fd); }); !watched)
      return watched;
  }
  sweep_period_ns_ = recorder_->sweep_period_ns();
  auto look_again = [this] { return sweep(); };
  if (Status watched = loop.watch_timer(sweep_timer_, sweep_period_ns_, true, look_again); !watched) return watched;
  if (Status watched = loop.watch(signals_.get(), [this, &loop] { return on_signal(loop); }); !watched) return watched;
  auto take_tables = [this]() -> Status {
    gather_.unwinding().take_tables();
    return ok();
  };
  if (Status watched = loop.watch(gather_.unwinding().tables_fd(), take_tables); !watched) return watched;
  for (const int fd : {recorder_->wakeup_fd(), recorder_->tasks_fd()}) {
    if (fd < 0) continue;
    if (Status watched = loop.watch(fd, [this] { return drain(); }); !watched) return watched;
  }
  if (Status watched = watch_cgroups(loop); !watched) return watched;
  return loop.watch_timer(flush_timer_, options_.flush_ns, true, [this] { return flush_on_time(); });
}

Status Session::watch_cgroups(Loop& loop) {
  if (options_.cgroups.empty()) return ok();
  return loop.watch_timer(cgroup_timer_, cgroups_.period_ns(), true, [this]() -> Status {
    cgroups_.look(recorder_->targets());
    return ok();
  });
}

Status Session::drain() {
  if (Status drained = recorder_->drain(gather_); !drained) return drained;
  look_at_processes();
  return flush_if_full();
}

// While a flush names its stacks. What fails now fails again at the next drain.
bool Session::drain_in_between() {
  (void)recorder_->drain(gather_);
  look_at_processes();
  return !is_awaited();
}

// Something is to end the recording once the flush is over, or a second signal the flush.
bool Session::is_awaited() const {
  std::array<pollfd, 3> ready = {pollfd{.fd = signals_.get(), .events = POLLIN},
                                 {.fd = ending_ ? -1 : end_timer_.get(), .events = POLLIN},
                                 {.fd = ending_ || !child_ ? -1 : child_->fd(), .events = POLLIN}};
  return ::poll(ready.data(), ready.size(), 0) > 0;
}

// After stacks were drained: what their processes mapped before them is told by now.
void Session::look_at_processes() { gather_.notice(recorder_->drain_tasks(gather_.tasks())); }

// The period changes when the hooks are given up.
Status Session::sweep() {
  if (Status swept = recorder_->sweep(gather_); !swept) return swept;
  look_at_processes();
  if (Status flushed = flush_if_full(); !flushed) return flushed;
  const std::uint64_t period_ns = recorder_->sweep_period_ns();
  if (period_ns == sweep_period_ns_) return ok();
  sweep_period_ns_ = period_ns;
  return arm_timer(sweep_timer_, period_ns, true);
}

Status Session::start() {
  window_start_ns_ = boot_clock_ns();
  rate_.begin();
  if (Status begun = cgroups_.begin(recorder_->targets()); !begun) return begun;
  if (Status started = recorder_->start(); !started) return started;
  if (child_) {
    if (Status running = child_->run(); !running) return running;
  }
  progress_.begin(options_);
  return ok();
}

// A file is tried again at the next flush, and what it lacks is kept; a stream that broke stays broken.
Status Session::write_window(profile::Window window, bool last) {
  Status written = output_->write(std::move(window));
  if (!written && written.error().code == EPIPE) return written;
  // The last one is tried again by close(), which then has the last word.
  if (!written && !write_failed_ && !last)
    log::warning("{}; trying again at the next flush", written.error().message());
  write_failed_ = !written;
  return ok();
}

Status Session::flush(bool last) {
  const bool forget = !last && gather_.wants_to_forget();
  const std::uint64_t next_start_ns = boot_clock_ns();
  const std::uint32_t frequency_hz = rate_.frequency_hz();
  gather_.begin_flush();
  if (!last) rate_.change(*recorder_);
  Result<bpf::Bank> bank = recorder_->flush(gather_, forget);
  if (!bank) return bank.error();
  look_at_processes();

  // Measured anew each time: somebody may have set the clock. Windows overlap by the time that a flush takes, so that
  // each encloses its samples.
  unix_ = unix_.renewed(BootToUnix::now());
  const WindowTime time(window_start_ns_, boot_clock_ns(), unix_, recorder_->clock_shift_ns());
  profile::Window window = gather_.window(*bank, time, frequency_hz);
  if (getrandom(window.id_seed.data(), window.id_seed.size(), 0) != static_cast<ssize_t>(window.id_seed.size())) {
    return errno_error("get random profile ids");
  }
  total_ += window.accounting;
  take_stock(*bank, window);
  Status written = write_window(std::move(window), last);
  gather_.end_flush(forget);
  diagnosis_.look(*recorder_, *bank, total_.in_span, total_.background, last);
  if (!last) rate_.judge(*bank, next_start_ns - window_start_ns_, frequency_hz);
  window_start_ns_ = next_start_ns;
  progress_.show(total_, gather_.spans());
  return written;
}

// One for each event, so that signals and timers get their turn however fast it fills.
Status Session::flush_if_full() {
  if (!gather_.full()) return ok();
  log::debug("flushing ahead of time: the window is full");
  burst_ = kCalmFlushes;
  if (Status armed = arm_timer(flush_timer_, options_.flush_ns, true); !armed) return armed;
  return flush(false);
}

// After a burst the heap would keep what that took.
Status Session::flush_on_time() {
  Status flushed = flush(false);
  if (burst_ > 0 && --burst_ == 0) malloc_trim(0);
  return flushed;
}

// What a flush has to say beside its window.
void Session::take_stock(const bpf::Bank& bank, const profile::Window& window) {
  if (!window.accounting.adds_up())
    log::warning("the accounting of this flush does not add up: this is a bug in spanfold");
  for (const auto& [name, count] : bank.side) {
    if (count > 0) log::debug("{} {}", name, count);
  }
  if (options_.span_times) stays_lost_ += gather_.span_times_left_out() + bank.side.at("stay_crowd");
}

// Whatever ended the recording, what was gathered is written.
Result<int> Session::finish(const Status& outcome) {
  ending_ = true;
  recorder_->stop();
  if (child_) child_->end();
  Status flushed = flush(true);
  Result<profile::OutputSummary> closed = output_->close();
  progress_.end();
  if (gather_.frames_lost() > 0) {
    log::warning("{} samples show as [frames lost]: the ring was full when their stacks were first seen",
                 gather_.frames_lost());
  }
  if (const std::uint64_t dropped = total_.dropped_total(); dropped > 0) {
    log::warning(
        "the profile is incomplete: {} of {} samples were dropped, since the ring was full or contended and the loader "
        "did not get to run; a lower --freq, or more CPU for it, keeps them",
        dropped, total_.ticks);
  }
  if (stays_lost_ > 0) {
    log::warning(
        "span times lack {} stays: the ring was full, or too many threads were in spans at once; -p narrows them",
        stays_lost_);
  }
  Progress::close(total_, gather_.spans(), closed ? *closed : profile::OutputSummary{});
  if (!outcome) return outcome.error();
  if (!flushed) return flushed.error();
  if (!closed) return closed.error();
  return child_ ? child_->status().value_or(kOwnFailureBesideCommand) : 0;
}

Result<int> Session::run() {
  if (Status host = check_host(options_); !host) return host.error();
  auto signals = take_signals();
  if (!signals) return signals.error();
  signals_ = std::move(*signals);
  if (!options_.command.empty()) {
    auto child = Child::fork(options_.command, options_.output == "-");
    if (!child) return child.error();
    child_.emplace(std::move(*child));
  }
  auto targets = open_targets(options_);
  if (!targets) return targets.error();
  targets_ = std::move(*targets);
  const std::optional<pid_t> command = child_ ? std::optional(child_->pid()) : std::nullopt;
  auto cgroups = open_cgroups(options_);
  if (!cgroups) return cgroups.error();
  cgroups_ = std::move(*cgroups);
  auto recorder = bpf::Recorder::open(recorder_options(options_, command, cgroups_));
  if (!recorder) return recorder.error();
  recorder_ = std::move(*recorder);
  if (Status used = gather_.unwinding().use(recorder_->unwind_store()); !used) return used.error();
  // Our own libraries are those of most programs here, a command's among them.
  const std::array<std::uint32_t, 1> ours = {static_cast<std::uint32_t>(getpid())};
  gather_.prepare_tables(ours);
  gather_.prepare_tables(options_.pids);
  // The kernel's rings hold what happens for a while only.
  gather_.when_busy([this] { return drain_in_between(); });
  lock_ = announce_recording(options_.context_path);
  auto output =
      profile::open_output({.path = options_.output, .max_disk_bytes = options_.max_disk_bytes, .version = kVersion});
  if (!output) return output.error();
  output_ = std::move(*output);
  auto loop = Loop::create();
  if (!loop) return loop.error();
  if (Status watched = watch_all(*loop); !watched) return watched.error();
  if (Status started = start(); !started) return finish(started);
  return finish(loop->run());
}

}  // namespace

Result<int> record(const RecordOptions& options) { return Session(options).run(); }

}  // namespace spanfold::app
