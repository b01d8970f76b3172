// SPDX-License-Identifier: Apache-2.0
#include "bpf/clock_events.h"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>

#include "base/file.h"

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

bool parse_number(std::string_view& text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value < 0) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

std::vector<int> parse_cpu_list(const std::string& text) {
  constexpr int kMostCpus = 1 << 16;
  std::vector<int> cpus;
  std::string_view rest = text;
  while (!rest.empty() && rest.back() == '\n') rest.remove_suffix(1);
  while (!rest.empty()) {
    int first = 0;
    if (!parse_number(rest, first)) return {};
    int last = first;
    if (!rest.empty() && rest.front() == '-') {
      rest.remove_prefix(1);
      if (!parse_number(rest, last)) return {};
    }
    if (last < first || last >= kMostCpus) return {};
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (rest.empty()) break;
    if (rest.front() != ',') return {};
    rest.remove_prefix(1);
    if (rest.empty()) return {};
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

Result<ClockEvents> ClockEvents::open(std::uint32_t frequency_hz, const std::vector<int>& cpus, int program_fd) {
  ClockEvents clocks;
  // The kernel turns the frequency of a clock into a fixed period in just this way.
  clocks.period_ns_ = kNanosecondsPerSecond / frequency_hz;
  std::vector<int> wanted = cpus;
  if (wanted.empty()) {
    auto online = read_file("/sys/devices/system/cpu/online", 65536);
    if (!online) return online.error();
    wanted = parse_cpu_list(*online);
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
    clocks.events_.push_back(std::move(event));
  }
  if (clocks.events_.empty()) {
    return Error{.what = "none of the CPUs asked for is online",
                 .hint = "see /sys/devices/system/cpu/online",
                 .failure = Failure::kUsage};
  }
  return clocks;
}

Status ClockEvents::enable() {
  for (const Fd& event : events_) {
    if (ioctl(event.get(), PERF_EVENT_IOC_ENABLE, 0) != 0) return errno_error("start a cpu-clock event");
  }
  return ok();
}

Status ClockEvents::set_frequency(std::uint32_t /*frequency_hz*/) { return ok(); }

void ClockEvents::disable() {
  for (const Fd& event : events_) ioctl(event.get(), PERF_EVENT_IOC_DISABLE, 0);
}

std::uint64_t ClockEvents::owed() const {
  std::uint64_t ticks = 0;
  for (const Fd& event : events_) {
    std::uint64_t clock_ns = 0;
    if (read(event.get(), &clock_ns, sizeof(clock_ns)) == sizeof(clock_ns)) ticks += clock_ns / period_ns_;
  }
  return ticks;
}

}  // namespace spanfold::bpf
