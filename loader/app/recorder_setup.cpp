// SPDX-License-Identifier: Apache-2.0
#include "app/recorder_setup.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/log.h"
#include "bpf/host.h"

namespace spanfold::app {
namespace {

std::uint32_t test_size(const char* name, std::uint32_t normal) {
  return static_cast<std::uint32_t>(test_value(name, normal));
}

bpf::Sizes sizes_from_environment() {
  bpf::Sizes sizes;
  sizes.ring_bytes = test_size("SPANFOLD_TEST_RING_BYTES", sizes.ring_bytes);
  sizes.tables = test_size("SPANFOLD_TEST_TABLES", sizes.tables);
  sizes.buckets = test_size("SPANFOLD_TEST_BUCKETS", sizes.buckets);
  sizes.task_bytes = test_size("SPANFOLD_TEST_TASK_BYTES", sizes.task_bytes);
  return sizes;
}

}  // namespace

std::uint64_t test_value(const char* name, std::uint64_t normal) {
  const char* text = std::getenv(name);
  return text == nullptr ? normal : std::strtoull(text, nullptr, 10);
}

Status check_host(const RecordOptions& options) {
  if (Status capable = bpf::check_capabilities(); !capable) return capable;
  if (bpf::in_host_pid_namespace()) return ok();
  if (!options.command.empty() || !options.pids.empty() || !options.tids.empty()) {
    return Error{.what = "this is not the host's pid namespace, where --pid, --tid and a command have other numbers",
                 .hint = "run on the host, or with hostPID: true",
                 .failure = Failure::kHost};
  }
  log::warning("this is not the host's pid namespace: processes cannot be named here; run with hostPID: true");
  return ok();
}

bpf::RecorderOptions recorder_options(const RecordOptions& options, std::optional<pid_t> command,
                                      const CgroupFilter& cgroups) {
  bpf::RecorderOptions asked;
  asked.frequency_hz = options.frequency_hz;
  asked.cpus = options.cpus;
  asked.pids = options.pids;
  asked.tids = options.tids;
  asked.groups = cgroups.kernel_groups();
  asked.members_only = cgroups.follows_members();
  asked.background_stacks = options.background == Background::kStacks;
  asked.context_path = options.context_path;
  asked.lifecycle = options.lifecycle;
  asked.span_times = options.span_times;
  asked.max_age_ns = options.max_span_age_ns;
  asked.max_frames = options.max_frames;
  asked.sizes = sizes_from_environment();
  if (command) {
    asked.pids.push_back(static_cast<std::uint32_t>(*command));
    asked.follow_forks = true;
  }
  return asked;
}

Result<CgroupFilter> open_cgroups(const RecordOptions& options) {
  CgroupFilter cgroups;
  if (Status opened = cgroups.open(options.cgroups); !opened) return opened.error();
  if (cgroups.kernel_groups() > bpf::kMostGroups) {
    return Error{.what = fmt::format("--cgroup takes {} groups of cgroup v2 at the most", bpf::kMostGroups),
                 .hint = "name a group above them",
                 .failure = Failure::kUsage};
  }
  if (cgroups.follows_members() && !bpf::in_host_pid_namespace()) {
    return Error{.what = "this is not the host's pid namespace, where processes of a cgroup v1 have other numbers",
                 .hint = "run on the host, or with hostPID: true",
                 .failure = Failure::kHost};
  }
  return cgroups;
}

Result<std::vector<Fd>> open_targets(const RecordOptions& options) {
  std::vector<Fd> targets;
  for (const std::uint32_t pid : options.pids) {
    Fd target(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (!target) return errno_error(fmt::format("watch process {}", pid), "--pid takes processes that are running");
    targets.push_back(std::move(target));
  }
  for (const std::uint32_t tid : options.tids) {
    if (kill(static_cast<pid_t>(tid), 0) != 0 && errno == ESRCH) {
      return errno_error(fmt::format("find thread {}", tid), "--tid takes threads that are running");
    }
  }
  return targets;
}

}  // namespace spanfold::app
