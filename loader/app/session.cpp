// SPDX-License-Identifier: Apache-2.0
#include "app/session.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/child.h"
#include "app/diagnosis.h"
#include "app/gather.h"
#include "app/loop.h"
#include "app/progress.h"
#include "app/version.h"
#include "base/clock.h"
#include "base/log.h"
#include "bpf/host.h"
#include "bpf/recorder.h"
#include "profile/output.h"

namespace spanfold::app {
namespace {

constexpr std::uint64_t kWarmUpNs = 200'000'000;

// A size for tests alone, which make the kernel side's stores tiny to see what overflows.
std::uint32_t test_size(const char* name, std::uint32_t normal) {
  const char* text = std::getenv(name);
  if (text == nullptr) return normal;
  return static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

bpf::Sizes sizes_from_environment() {
  bpf::Sizes sizes;
  sizes.ring_bytes = test_size("SPANFOLD_TEST_RING_BYTES", sizes.ring_bytes);
  sizes.tables = test_size("SPANFOLD_TEST_TABLES", sizes.tables);
  sizes.buckets = test_size("SPANFOLD_TEST_BUCKETS", sizes.buckets);
  return sizes;
}

Loop::Action stop_action(Loop& loop) {
  return [&loop]() -> Status {
    loop.stop();
    return ok();
  };
}

class Session {
 public:
  explicit Session(const RecordOptions& options)
      : options_(options),
        gather_({.local_symbols = options.local_symbols,
                 .background = options.background,
                 .frequency_hz = options.frequency_hz}),
        diagnosis_(options.context_path) {}

  Result<int> run();

 private:
  Status check_host() const;
  Status open_kernel_side();
  Status open_targets();
  Status watch_all(Loop& loop);
  Status start();
  Status flush(bool last);
  Result<int> finish(const Status& outcome);
  Status on_target_gone(Loop& loop, int fd);
  Status on_signal(Loop& loop);
  static Status watch_timer(Loop& loop, Fd& timer, std::uint64_t interval_ns, bool repeat, Loop::Action action);
  Status write_window(profile::Window window, bool last);

  const RecordOptions& options_;
  Gather gather_;
  Diagnosis diagnosis_;
  Progress progress_;
  std::optional<Child> child_;
  std::unique_ptr<bpf::Recorder> recorder_;
  std::unique_ptr<profile::Output> output_;
  Fd signals_;
  Fd flush_timer_;
  Fd warm_up_timer_;
  Fd end_timer_;
  Fd grace_timer_;
  bool interrupted_ = false;
  std::vector<Fd> targets_;
  profile::Accounting total_;
  std::uint64_t window_start_ns_ = 0;  // boot clock
  bool write_failed_ = false;          // and said so
};

Status Session::check_host() const {
  if (Status capable = bpf::check_capabilities(); !capable) return capable;
  if (bpf::in_host_pid_namespace()) return ok();
  if (!options_.command.empty() || !options_.pids.empty() || !options_.tids.empty()) {
    return Error{.what = "this is not the host's pid namespace, where --pid, --tid and a command have other numbers",
                 .hint = "run on the host, or with hostPID: true",
                 .failure = Failure::kHost};
  }
  log::warning("this is not the host's pid namespace: processes cannot be named here; run with hostPID: true");
  return ok();
}

Status Session::open_kernel_side() {
  bpf::RecorderOptions options;
  options.frequency_hz = options_.frequency_hz;
  options.cpus = options_.cpus;
  options.pids = options_.pids;
  options.tids = options_.tids;
  options.background_stacks = options_.background == Background::kStacks;
  options.context_path = options_.context_path;
  options.sizes = sizes_from_environment();
  if (child_) {
    options.pids.push_back(static_cast<std::uint32_t>(child_->pid()));
    options.follow_forks = true;
  }
  auto recorder = bpf::Recorder::open(options);
  if (!recorder) return recorder.error();
  recorder_ = std::move(*recorder);
  return ok();
}

// A recording of given processes ends with the last of them.
Status Session::open_targets() {
  for (const std::uint32_t pid : options_.pids) {
    Fd target(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (!target) return errno_error(fmt::format("watch process {}", pid), "--pid takes processes that are running");
    targets_.push_back(std::move(target));
  }
  for (const std::uint32_t tid : options_.tids) {
    if (kill(static_cast<pid_t>(tid), 0) != 0 && errno == ESRCH) {
      return errno_error(fmt::format("find thread {}", tid), "--tid takes threads that are running");
    }
  }
  return ok();
}

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
  return watch_timer(loop, grace_timer_, kGraceNs, false, stop_action(loop));
}

Status Session::watch_timer(Loop& loop, Fd& timer, std::uint64_t interval_ns, bool repeat, Loop::Action action) {
  auto made = make_timer(interval_ns, repeat);
  if (!made) return made.error();
  timer = std::move(*made);
  return loop.watch(timer.get(), [&timer, action = std::move(action)] {
    drain_timer(timer);
    return action();
  });
}

Status Session::watch_all(Loop& loop) {
  if (options_.local_symbols) {
    // The kernel's symbols, once the command runs and before the first flush wants them.
    auto prepare = [this]() -> Status {
      gather_.prepare();
      return ok();
    };
    if (Status watched = watch_timer(loop, warm_up_timer_, kWarmUpNs, false, prepare); !watched) return watched;
  }
  if (options_.duration_ns != 0) {
    Status watched = watch_timer(loop, end_timer_, options_.duration_ns, false, stop_action(loop));
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
  if (Status watched = loop.watch(signals_.get(), [this, &loop] { return on_signal(loop); }); !watched) return watched;
  if (Status watched = loop.watch(recorder_->wakeup_fd(), [this] { return recorder_->drain(gather_); }); !watched) {
    return watched;
  }
  return watch_timer(loop, flush_timer_, options_.flush_ns, true, [this] { return flush(false); });
}

Status Session::start() {
  window_start_ns_ = boot_clock_ns();
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
  gather_.begin_flush();
  Result<bpf::Bank> bank = recorder_->flush(gather_, forget);
  if (!bank) return bank.error();

  profile::Window window = gather_.window(*bank);
  // Measured anew each time: somebody may have set the clock. Windows overlap by the time that a flush takes, so that
  // each encloses its samples.
  const BootToUnix unix = BootToUnix::now();
  window.start_unix_nano = unix.unix_ns(window_start_ns_);
  window.duration_ns = boot_clock_ns() - window_start_ns_;
  window_start_ns_ = next_start_ns;
  if (getrandom(window.id_seed.data(), window.id_seed.size(), 0) != static_cast<ssize_t>(window.id_seed.size())) {
    return errno_error("get random profile ids");
  }
  if (!window.accounting.adds_up())
    log::warning("the accounting of this flush does not add up: this is a bug in spanfold");
  total_ += window.accounting;
  for (const auto& [name, count] : bank->side) {
    if (count > 0) log::debug("{} {}", name, count);
  }
  Status written = write_window(std::move(window), last);
  gather_.end_flush(forget);
  diagnosis_.look(*recorder_, *bank, total_.in_span, total_.background, last);
  progress_.show(total_, gather_.spans());
  return written;
}

// Whatever ended the recording, what was gathered is written.
Result<int> Session::finish(const Status& outcome) {
  recorder_->stop();
  if (child_) child_->end();
  Status flushed = flush(true);
  Result<profile::OutputSummary> closed = output_->close();
  progress_.end();
  if (gather_.frames_lost() > 0) {
    log::warning("{} samples show as [frames lost]: the ring was full when their stacks were first seen",
                 gather_.frames_lost());
  }
  Progress::close(total_, gather_.spans(), closed ? *closed : profile::OutputSummary{});
  if (!outcome) return outcome.error();
  if (!flushed) return flushed.error();
  if (!closed) return closed.error();
  return child_ ? child_->status().value_or(kOwnFailureBesideCommand) : 0;
}

Result<int> Session::run() {
  if (Status host = check_host(); !host) return host.error();
  auto signals = take_signals();
  if (!signals) return signals.error();
  signals_ = std::move(*signals);
  if (!options_.command.empty()) {
    auto child = Child::fork(options_.command, options_.output == "-");
    if (!child) return child.error();
    child_.emplace(std::move(*child));
  }
  if (Status opened = open_targets(); !opened) return opened.error();
  if (Status opened = open_kernel_side(); !opened) return opened.error();
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
