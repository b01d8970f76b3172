// SPDX-License-Identifier: Apache-2.0
#include "app/cgroup_filter.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"

namespace spanfold::app {
namespace {

// Processes that others move into a group, or out of it, count so that late.
constexpr std::uint64_t kFollowNs = 100'000'000;
// Of groups that the kernel tells, only whether they are made anew is looked for.
constexpr std::uint64_t kLookNs = 1'000'000'000;
// No more than this part of the time goes into looks: each takes 0.4 ms for 1,000 processes.
constexpr std::uint64_t kRest = 400;

constexpr std::size_t kMostMountBytes = std::size_t{4} << 20;

std::vector<std::uint32_t> difference(const std::vector<std::uint32_t>& all, const std::vector<std::uint32_t>& less) {
  std::vector<std::uint32_t> rest;
  std::set_difference(all.begin(), all.end(), less.begin(), less.end(), std::back_inserter(rest));
  return rest;
}

}  // namespace

Status CgroupFilter::open(const std::vector<std::string>& names) {
  if (names.empty()) return ok();
  const Result<std::string> mountinfo = read_file("/proc/self/mountinfo", kMostMountBytes);
  if (!mountinfo) return mountinfo.error();
  const std::vector<proc::CgroupMount> mounts = proc::cgroup_mounts(*mountinfo);
  for (const std::string& name : names) {
    Result<proc::Cgroup> found = proc::find_cgroup(name, mounts);
    if (!found) return found.error();
    log::debug("cgroup {} is {}, of {}", name, found->path, found->is_v2 ? "v2" : "v1");
    if (proc::is_empty_cgroup(found->path)) {
      log::info("there is no process in the cgroup {} yet: what comes into it is recorded", found->path);
    }
    const std::uint32_t slot = kernel_groups();
    groups_.push_back({.cgroup = std::move(*found), .slot = slot});
  }
  return ok();
}

std::uint32_t CgroupFilter::kernel_groups() const {
  const auto count =
      std::count_if(groups_.begin(), groups_.end(), [](const Group& group) { return group.cgroup.is_v2; });
  return static_cast<std::uint32_t>(count);
}

// Whoever restarts a service or a container makes its group anew.
void CgroupFilter::look_at(Group& group) {
  Result<proc::Cgroup> now = proc::open_cgroup(group.cgroup.path);
  if (!now) {
    if (!group.gone) log::warning("the cgroup {} is gone: recording goes on, and waits for it", group.cgroup.path);
    group.gone = true;
    return;
  }
  if (now->is_v2 != group.cgroup.is_v2 || (now->inode == group.cgroup.inode && !group.gone)) return;
  log::info("the cgroup {} was made anew: what is in it is recorded", group.cgroup.path);
  group.cgroup = std::move(*now);
  group.gone = group.told = false;
}

Status CgroupFilter::tell(Group& group, const bpf::Targets& targets) {
  if (!group.cgroup.is_v2 || group.told || group.gone) return ok();
  if (Status set = targets.set_group(group.slot, group.cgroup.folder.get()); !set) return set;
  group.told = true;
  return ok();
}

Status CgroupFilter::begin(const bpf::Targets& targets) {
  for (Group& group : groups_) {
    if (Status told = tell(group, targets); !told) return told;
  }
  if (follows_members()) follow(targets);
  if (!groups_.empty()) log::debug("recording what is in {} cgroups", groups_.size());
  return ok();
}

std::uint64_t CgroupFilter::period_ns() const { return follows_members() ? kFollowNs : kLookNs; }

void CgroupFilter::look(const bpf::Targets& targets) {
  const std::uint64_t now_ns = boot_clock_ns();
  if (now_ns < next_look_ns_) return;
  for (Group& group : groups_) {
    look_at(group);
    // It may be gone again; the next look tries anew.
    if (Status told = tell(group, targets); !told) log::debug("{}", told.error().message());
  }
  if (follows_members()) follow(targets);
  next_look_ns_ = now_ns + kRest * (boot_clock_ns() - now_ns);
}

std::vector<std::uint32_t> CgroupFilter::members() const {
  std::vector<std::uint32_t> all;
  for (const Group& group : groups_) {
    if (group.cgroup.is_v2) continue;
    if (const auto some = proc::cgroup_members(group.cgroup.path)) all.insert(all.end(), some->begin(), some->end());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// The programs add children of members and drop what ends, at once. So who is known is asked for first: what is born
// after that is not taken for somebody who left.
void CgroupFilter::follow(const bpf::Targets& targets) {
  const std::vector<std::uint32_t> known = targets.all(bpf::TargetKind::kMember);
  const std::vector<std::uint32_t> present = members();
  for (const std::uint32_t pid : difference(present, known)) add(pid, targets);
  const std::vector<std::uint32_t> missing = difference(known, present);
  if (missing.empty()) return;
  // Who went from one group to another below it while those were read may have been in neither.
  for (const std::uint32_t pid : difference(missing, members())) targets.remove(pid, bpf::TargetKind::kMember);
}

void CgroupFilter::add(std::uint32_t pid, const bpf::Targets& targets) {
  if (Status added = targets.add(pid, bpf::TargetKind::kMember); !added) {
    if (!std::exchange(crowd_said_, true))
      log::warning("{}: of the cgroups, some processes count as filtered", added.error().message());
    return;
  }
  // It may have ended before it was added: then nobody else takes it out, and the next one of that number is not meant.
  if (kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) targets.remove(pid, bpf::TargetKind::kMember);
}

}  // namespace spanfold::app
