// SPDX-License-Identifier: Apache-2.0
// Who mapped what, by what the kernel told as it happened: so it is known of processes, too, that are gone before
// anybody could look. Holds those that were forked or executed something while it listened; opens no files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/process.h"
#include "base/task_sink.h"
#include "proc/logged_image.h"
#include "proc/maps.h"

namespace spanfold::proc {

class MappingLog : public TaskSink {
 public:
  // Beyond, the oldest processes are dropped: what still lives can be read from /proc.
  struct Limits {
    std::size_t processes = 16'384;
    std::size_t mappings = 65'536;  // 48 bytes each
  };
  MappingLog() : MappingLog(Limits{}) {}
  explicit MappingLog(const Limits& limits) : limits_(limits) {}

  void on_fork(std::uint32_t pid, std::uint32_t tid, std::uint32_t parent, std::uint64_t boottime_ns) override;
  void on_exec(std::uint32_t pid, std::uint64_t boottime_ns) override;
  void on_mapping(const TaskMapping& mapping) override;
  void on_exit(std::uint32_t pid, std::uint32_t tid, std::uint64_t boottime_ns) override;
  // Forgets all that lived then: an exec among what was not told would give the old program's names to the new one.
  void on_lost(std::uint64_t since_ns, std::uint64_t until_ns) override;

  // Valid until the log changes.
  struct Found {
    const LoggedImage* image = nullptr;  // with mappings; null: not known
    // Where it is null: a process that is known to have the mappings that are asked for, if /proc shows `image` of it.
    // 0: none.
    std::uint32_t same_as = 0;
  };
  // What a process had mapped at a time when it ran code of its own and showed `image`. The log must have been told
  // everything from before.
  [[nodiscard]] Found find(const ProcessKey& key, const ImageTag& image, std::uint64_t boottime_ns) const;
  // A process's ancestors that are known and live, the nearest first, at most eight: they may see the same files.
  [[nodiscard]] std::vector<std::uint32_t> ancestors(std::uint32_t pid, std::uint64_t boottime_ns) const;
  // What /proc said of the process that find() named in `same_as`, which began at `start_ns`: ranges in order, without
  // overlaps. Null where it is no longer asked for.
  const MappingList* adopt(std::uint32_t pid, const ImageTag& image, std::uint64_t start_ns,
                           std::span<const MapRange> ranges);

  // Drops what ended before the last call and a second ago. To be called when all that was told up to `told_ns` is in
  // the log, and find() was called for all stacks that were ready before that.
  void forget_gone(std::uint64_t told_ns);

  [[nodiscard]] std::size_t processes() const { return processes_.size(); }
  [[nodiscard]] std::size_t mappings() const { return mappings_; }
  [[nodiscard]] std::size_t files() const { return files_.size(); }
  [[nodiscard]] std::uint64_t losses() const { return losses_; }
  [[nodiscard]] std::uint64_t crowded_out() const { return crowded_out_; }

 private:
  struct Process {
    std::uint64_t exit_ns = 0;        // 0: lives
    bool forked = false;              // its first record is its fork; else it began before
    std::uint32_t parent = 0;         // where it was forked
    std::uint32_t threads = 0;        // 0: not known
    std::vector<LoggedImage> images;  // oldest first, never empty
  };
  using Key = std::pair<std::uint32_t, std::uint64_t>;  // pid, time of the first record
  using Processes = std::map<Key, Process>;
  struct Ended {
    std::uint64_t boottime_ns = 0;
    Key key;
  };

  // The one that had the pid at that time, whether or not it had ended; end() where none is known.
  [[nodiscard]] Processes::const_iterator at(std::uint32_t pid, std::uint64_t boottime_ns) const;
  [[nodiscard]] Processes::iterator living(std::uint32_t pid);
  static const LoggedImage& image_at(const Process& process, std::uint64_t boottime_ns);
  [[nodiscard]] Found inherited(Processes::const_iterator child, const ImageTag& image) const;
  Processes::iterator add(std::uint32_t pid, std::uint64_t boottime_ns, Process process);
  void end(Processes::iterator place, std::uint64_t boottime_ns);
  void keep_within_limits();

  Limits limits_;
  std::size_t mappings_ = 0;  // in all lists; must outlive them
  LoggedFiles files_;
  Processes processes_;
  std::deque<Ended> ended_;  // processes and images, in order
  std::uint64_t told_ns_ = 0;
  std::uint64_t losses_ = 0;
  std::uint64_t losses_said_ = 0;
  std::uint64_t crowded_out_ = 0;
};

}  // namespace spanfold::proc
