// SPDX-License-Identifier: Apache-2.0
#include "bpf/task_events.h"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>

#include "bpf/cpus.h"
#include "bpf/task_records.h"

namespace spanfold::bpf {
namespace {

int open_event(int cpu, std::size_t ring_bytes, bool build_ids) {
  perf_event_attr attr{};
  attr.size = sizeof(attr);
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_DUMMY;
  attr.disabled = 1;
  attr.mmap = 1;  // without mmap_data: executable ones
  attr.mmap2 = 1;
  attr.comm = 1;
  attr.comm_exec = 1;
  attr.task = 1;
  attr.build_id = build_ids ? 1 : 0;
  attr.sample_type = PERF_SAMPLE_TIME;
  attr.sample_id_all = 1;
  attr.use_clockid = 1;
  attr.clockid = CLOCK_BOOTTIME;
  attr.watermark = 1;
  attr.wakeup_watermark = static_cast<std::uint32_t>(ring_bytes / 4);
  return static_cast<int>(syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC));
}

// What many CPUs do spreads over many rings.
std::size_t affordable(std::size_t ring_bytes, std::size_t cpus) {
  constexpr std::size_t kMostTogether = 4UL << 20;
  constexpr std::size_t kLeast = 32UL << 10;
  while (ring_bytes > kLeast && ring_bytes * cpus > kMostTogether) ring_bytes /= 2;
  return ring_bytes;
}

}  // namespace

Result<TaskEvents> TaskEvents::open(std::size_t ring_bytes) {
  auto online = online_cpus();
  if (!online) return online.error();
  ring_bytes = affordable(ring_bytes, online->size());
  TaskEvents events;
  events.wakeup_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!events.wakeup_) return errno_error("create an epoll descriptor");
  bool build_ids = true;
  for (const int cpu : *online) {
    Fd event(open_event(cpu, ring_bytes, build_ids));
    if (!event && errno == EINVAL && build_ids) {
      build_ids = false;
      event.reset(open_event(cpu, ring_bytes, build_ids));
    }
    if (!event && errno == ENODEV) continue;  // went offline since the list was read
    if (!event) return errno_error(fmt::format("open an event for processes on CPU {}", cpu));
    auto ring = PerfRing::map(event.get(), ring_bytes);
    if (!ring) return ring.error();
    epoll_event watched{.events = EPOLLIN, .data = {}};
    if (epoll_ctl(events.wakeup_.get(), EPOLL_CTL_ADD, event.get(), &watched) != 0) {
      return errno_error("watch an event for processes");
    }
    events.cpus_.push_back({.event = std::move(event), .ring = std::move(*ring)});
  }
  return events;
}

Status TaskEvents::start() {
  for (const Cpu& cpu : cpus_) {
    if (ioctl(cpu.event.get(), PERF_EVENT_IOC_ENABLE, 0) != 0) return errno_error("start an event for processes");
  }
  return ok();
}

void TaskEvents::line_up(std::size_t cpu, std::uint64_t until_ns) {
  const auto record = cpus_[cpu].ring.next(cpus_[cpu].broken);
  if (record.empty()) return;
  const std::uint64_t time_ns = PerfRing::time_of(record);
  if (time_ns >= until_ns) return;
  next_.push_back({.time_ns = time_ns, .cpu = cpu});
  std::push_heap(next_.begin(), next_.end(), std::greater<>());
}

void TaskEvents::drain(std::uint64_t until_ns, TaskSink& sink) {
  for (std::size_t cpu = 0; cpu < cpus_.size(); ++cpu) {
    cpus_[cpu].ring.look();
    line_up(cpu, until_ns);
  }
  while (!next_.empty()) {
    std::pop_heap(next_.begin(), next_.end(), std::greater<>());
    const std::size_t number = next_.back().cpu;
    next_.pop_back();
    Cpu& cpu = cpus_[number];
    const auto record = cpu.ring.next(cpu.broken);
    if (!dispatch_record(record, cpu.before_ns, sink)) cpu.broken = true;
    cpu.before_ns = PerfRing::time_of(record);
    cpu.ring.pass(record.size());
    line_up(number, until_ns);
  }
  for (Cpu& cpu : cpus_) {
    // The kernel tells of a loss with the next record that it has room for, which may be long after.
    const bool lost = std::exchange(cpu.broken, false) || cpu.ring.was_full();
    cpu.ring.give_back();
    if (lost) sink.on_lost(cpu.before_ns, until_ns);
  }
}

}  // namespace spanfold::bpf
