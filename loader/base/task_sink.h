// SPDX-License-Identifier: Apache-2.0
// What the kernel tells of processes as it happens: bpf reads it, proc remembers it. Times are of the boot clock, pids
// those of this process's pid namespace; views live as long as the call.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace spanfold {

// A range of executable memory that came to be. Nothing tells of one that goes: the next one at its place does.
struct TaskMapping {
  std::uint32_t pid = 0;
  std::uint64_t boottime_ns = 0;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;
  std::string_view path;  // below the root of the process; "[vdso]", "//anon" and the like for what is no file
  // What tells the file: its build id, or where the kernel knows none, the rest.
  std::span<const std::uint8_t> build_id;
  dev_t device = 0;  // of the superblock: not what stat(2) says on btrfs and overlayfs
  std::uint64_t inode = 0;
};

class TaskSink {
 public:
  TaskSink() = default;
  TaskSink(const TaskSink&) = delete;
  TaskSink& operator=(const TaskSink&) = delete;
  virtual ~TaskSink() = default;

  // `parent` made `tid`: another thread where `pid` is `parent`, else a process.
  virtual void on_fork(std::uint32_t pid, std::uint32_t tid, std::uint32_t parent, std::uint64_t boottime_ns) = 0;
  // The old mappings have gone, the new ones follow.
  virtual void on_exec(std::uint32_t pid, std::uint64_t boottime_ns) = 0;
  virtual void on_mapping(const TaskMapping& mapping) = 0;
  // A thread ends.
  virtual void on_exit(std::uint32_t pid, std::uint32_t tid, std::uint64_t boottime_ns) = 0;
  // Whatever happened between the two was not told, or not all of it.
  virtual void on_lost(std::uint64_t since_ns, std::uint64_t until_ns) = 0;
};

}  // namespace spanfold
