// SPDX-License-Identifier: Apache-2.0
// Control groups as folders: found by path or name, and who is in them. Of either version, mounted anywhere.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace spanfold::proc {

struct CgroupMount {
  std::string path;
  bool is_v2 = false;
};

// The mounts of cgroup file systems in /proc/PID/mountinfo (proc(5)): those of v2 first, else in their order.
[[nodiscard]] std::vector<CgroupMount> cgroup_mounts(std::string_view mountinfo);

struct Cgroup {
  std::string path;
  Fd folder;
  ino_t inode = 0;  // a group that is made anew has another one
  bool is_v2 = false;
};

// Opens the folder of a group. Errors: "open the cgroup PATH" with errno where there is none, a usage error where it is
// something else.
[[nodiscard]] Result<Cgroup> open_cgroup(const std::string& path);

// The group that a user names: by the path of its folder, or as it is called below a mount ("system.slice/x.service",
// and so with a slash in front, as /proc/PID/cgroup has it). Where several mounts have one of that name, the first one
// that holds processes counts, or else the first one; v2 comes before v1.
[[nodiscard]] Result<Cgroup> find_cgroup(const std::string& name, const std::vector<CgroupMount>& mounts);

// The processes in the group at `path` and in all below it, sorted, by their pids in the pid namespace of this process;
// in v1, a process counts in each group that has a thread of it. Groups that go meanwhile hold nobody; an error where
// that one itself is gone.
[[nodiscard]] Result<std::vector<std::uint32_t>> cgroup_members(const std::string& path);

// Whether it certainly holds nobody: a threaded group of v2 does not tell.
[[nodiscard]] bool is_empty_cgroup(const std::string& path);

}  // namespace spanfold::proc
