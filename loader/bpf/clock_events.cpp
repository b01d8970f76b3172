// SPDX-License-Identifier: Apache-2.0
#include "bpf/clock_events.h"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/file.h"
#include "bpf/cpus.h"

namespace spanfold::bpf {
namespace {

constexpr std::uint64_t kNanosecondsPerSecond = 1'000'000'000;

// A /proc or /sys value of one line, for messages; "?" where it cannot be read.
std::string setting(const char* path) {
  auto text = read_file(path, 4096);
  if (!text) return "?";
  return text->substr(0, text->find('\n'));
}

Error open_error(int cpu, std::uint32_t frequency_hz, int code) {
  Error error{.what = fmt::format("open a cpu-clock event of {} Hz on CPU {}", frequency_hz, cpu),
              .code = code,
              .failure = Failure::kHost};
  if (code == EINVAL) {
    error.hint = fmt::format("kernel.perf_event_max_sample_rate is {}: choose a lower --freq or raise it",
                             setting("/proc/sys/kernel/perf_event_max_sample_rate"));
  } else if (code == EACCES || code == EPERM) {
    error.hint = fmt::format("needs root or CAP_PERFMON; kernel.perf_event_paranoid is {}",
                             setting("/proc/sys/kernel/perf_event_paranoid"));
  }
  return error;
}

// The kernel answers a CPU that can never be there with the same EINVAL as a frequency that it refuses.
Status check_possible(const std::vector<int>& wanted) {
  auto text = read_file("/sys/devices/system/cpu/possible", 65536);
  if (!text) return text.error();
  const std::vector<int> possible = parse_cpu_list(*text);
  for (const int cpu : wanted) {
    if (std::binary_search(possible.begin(), possible.end(), cpu)) continue;
    return Error{.what = fmt::format("there is no CPU {}", cpu),
                 .hint = fmt::format("this host has {}", text->substr(0, text->find('\n'))),
                 .failure = Failure::kUsage};
  }
  return ok();
}

// cpu-clock is a timer, no NMI: map updates in the tick cannot meet one of their own half done.
int open_event(int cpu, std::uint32_t frequency_hz) {
  perf_event_attr attr{};
  attr.size = sizeof(attr);
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_CPU_CLOCK;
  attr.freq = 1;
  attr.sample_freq = frequency_hz;
  attr.disabled = 1;
  return static_cast<int>(syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC));
}

// The kernel turns the frequency of a clock into a fixed period in just this way.
std::uint64_t period_of(std::uint32_t frequency_hz) { return kNanosecondsPerSecond / frequency_hz; }

// What the event's own clock shows: the time that it has been running.
std::uint64_t clock_of(const Fd& event) {
  std::uint64_t clock_ns = 0;
  return read(event.get(), &clock_ns, sizeof(clock_ns)) == sizeof(clock_ns) ? clock_ns : 0;
}

}  // namespace

Result<ClockEvents> ClockEvents::open(std::uint32_t frequency_hz, const std::vector<int>& cpus, int program_fd) {
  ClockEvents clocks;
  std::vector<int> wanted = cpus;
  if (wanted.empty()) {
    auto online = online_cpus();
    if (!online) return online.error();
    wanted = std::move(*online);
  }
  if (Status there = check_possible(wanted); !there) return there.error();
  for (const int cpu : wanted) {
    Fd event(open_event(cpu, frequency_hz));
    // ENODEV: the CPU is offline, or went offline since the list was read.
    if (!event && errno == ENODEV) continue;
    if (!event) return open_error(cpu, frequency_hz, errno);
    if (ioctl(event.get(), PERF_EVENT_IOC_SET_BPF, program_fd) != 0) {
      Error error = errno_error(fmt::format("attach the tick program on CPU {}", cpu));
      error.failure = Failure::kHost;
      return error;
    }
    clocks.events_.push_back({.fd = std::move(event), .period_ns = period_of(frequency_hz)});
  }
  if (clocks.events_.empty()) {
    return Error{.what = "none of the CPUs asked for is online",
                 .hint = "see /sys/devices/system/cpu/online",
                 .failure = Failure::kUsage};
  }
  return clocks;
}

Status ClockEvents::enable() {
  running_ = true;
  for (const Event& event : events_) {
    if (ioctl(event.fd.get(), PERF_EVENT_IOC_ENABLE, 0) != 0) return errno_error("start a cpu-clock event");
  }
  return ok();
}

void ClockEvents::disable() {
  running_ = false;
  for (const Event& event : events_) ioctl(event.fd.get(), PERF_EVENT_IOC_DISABLE, 0);
}

// The event rests meanwhile, and its clock with it: no tick falls between the reading and the change.
Status ClockEvents::set_period(Event& event, std::uint64_t period_ns) {
  const int fd = event.fd.get();
  if (running_ && ioctl(fd, PERF_EVENT_IOC_DISABLE, 0) != 0) return errno_error("stop a cpu-clock event");
  // A clock keeps no frequency: it became a period at open, so the kernel takes nanoseconds here.
  const bool changed = ioctl(fd, PERF_EVENT_IOC_PERIOD, &period_ns) == 0;
  const int code = errno;
  if (changed) {
    const std::uint64_t clock_ns = clock_of(event.fd);
    owed_before_ += (clock_ns - event.since_ns) / event.period_ns;
    event.since_ns = clock_ns;
    event.period_ns = period_ns;
  }
  if (running_ && ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) != 0) return errno_error("start a cpu-clock event");
  if (changed) return ok();
  return Error{.what = fmt::format("set the period of a cpu-clock event to {} ns", period_ns), .code = code};
}

Status ClockEvents::set_frequency(std::uint32_t frequency_hz) {
  for (Event& event : events_) {
    if (Status set = set_period(event, period_of(frequency_hz)); !set) return set;
  }
  return ok();
}

std::uint64_t ClockEvents::owed() const {
  std::uint64_t ticks = owed_before_;
  for (const Event& event : events_) {
    const std::uint64_t clock_ns = clock_of(event.fd);
    if (clock_ns > event.since_ns) ticks += (clock_ns - event.since_ns) / event.period_ns;
  }
  return ticks;
}

}  // namespace spanfold::bpf
