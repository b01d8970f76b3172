// SPDX-License-Identifier: Apache-2.0
// What all processes of the host do, told by the kernel as it happens: one perf event a CPU that counts nothing and
// records forks, execs, executable mappings and exits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/task_sink.h"
#include "bpf/perf_ring.h"

namespace spanfold::bpf {

class TaskEvents {
 public:
  // Opens the events on all CPUs that are online, each with a ring of `ring_bytes` (a power of two, of pages), or less
  // where there are many; nothing is recorded yet. CPUs that come later are not covered. Files carry their build ids
  // where the kernel can tell (5.12).
  static Result<TaskEvents> open(std::size_t ring_bytes);
  Status start();

  // Readable each time that a quarter of some ring has been filled.
  [[nodiscard]] int wakeup_fd() const { return wakeup_.get(); }
  // Hands all records from before `until_ns` (the kernel's boot clock, read before this call) to `sink`. What one task
  // did, and what it did before it made another one, comes in that order, whatever CPUs they ran on: a record is in its
  // ring before its task goes on, so the rings hold all that is older than a clock that was read before they are.
  void drain(std::uint64_t until_ns, TaskSink& sink);

 private:
  struct Cpu {
    Fd event;
    PerfRing ring;
    std::uint64_t before_ns = 0;  // time of the record before
    bool broken = false;          // the ring held what is no record
  };
  struct Next {
    std::uint64_t time_ns = 0;
    std::size_t cpu = 0;
    auto operator<=>(const Next&) const = default;
  };
  void line_up(std::size_t cpu, std::uint64_t until_ns);

  std::vector<Cpu> cpus_;
  std::vector<Next> next_;  // a heap: of each CPU that has one, the oldest record
  Fd wakeup_;               // an epoll descriptor around the events
};

}  // namespace spanfold::bpf
