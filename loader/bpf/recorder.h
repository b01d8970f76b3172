// SPDX-License-Identifier: Apache-2.0
// The kernel side as app sees it: open, start, drain, flush, stop.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/task_sink.h"
#include "bpf/events.h"
#include "bpf/programs.h"
#include "bpf/targets.h"
#include "bpf/unwind_store.h"

namespace spanfold::bpf {

// How ends of spans are seen.
enum class Lifecycle : std::uint8_t {
  kAuto,    // by hooks where the kernel takes them and they are not called too often for other maps, else by the sweep
  kFentry,  // by hooks on the context map's update, delete and eviction; an error where the kernel refuses them
  kSweep,   // by samples, and by a sweep that looks again at what is live
};

struct RecorderOptions {
  std::uint32_t frequency_hz = 99;
  std::vector<int> cpus;            // empty: all that are online
  std::vector<std::uint32_t> pids;  // with tids and follow_forks all empty: everything, but for groups
  std::vector<std::uint32_t> tids;
  bool follow_forks = false;       // children of the targets are targets
  bool members_only = false;       // with groups: what is in none of them passes only as a member among the targets
  std::uint32_t groups = 0;        // of cgroup v2, set by number before start(): only what is in them
  bool background_stacks = false;  // walk and fold outside spans too
  std::string context_path;        // the pinned context map
  Lifecycle lifecycle = Lifecycle::kAuto;
  bool span_times = false;       // stays come out even without a sample
  std::uint64_t max_age_ns = 0;  // a span that is longer on a thread counts as background from then on; 0: no limit
  std::uint32_t max_frames = kMostUserFrames;  // of the user half of a stack
  Sizes sizes;
};

// What is known of the context map: it explains why no sample is in a span.
enum class ContextState : std::uint8_t {
  kUnusable,  // the pin has a shape that cannot serve; said at open
  kEmpty,     // no entry in it
  kFilled,    // entries, of whatever threads
};

class Recorder {
 public:
  // Opens the context map (creates it where it is missing), loads and attaches the programs, opens the clocks. Nothing
  // samples yet. Errors end with exit code 3, or 2 where the options make no sense.
  static Result<std::unique_ptr<Recorder>> open(const RecorderOptions& options);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // What the filter is held against. Valid until the next call of anything here.
  [[nodiscard]] Targets targets() const;
  Status start();
  void stop();
  // Samples at another rate from the next flush on, which begins right behind this call.
  Status set_frequency(std::uint32_t frequency_hz);
  // Looks whether live spans still are on their threads, and drains. To be called each sweep_period_ns(); cheap where
  // none is.
  Status sweep(Sink& sink);
  [[nodiscard]] std::uint64_t sweep_period_ns() const;

  // Readable when the kernel wants the ring emptied before the next flush.
  [[nodiscard]] int wakeup_fd() const;
  // Hands messages that are ready to `sink`, oldest first, until it is full; of those that come meanwhile not more than
  // the ring holds.
  Status drain(Sink& sink);
  // Readable when what processes did should be taken before the next stacks; -1 where the kernel does not tell.
  [[nodiscard]] int tasks_fd() const;
  // Hands what processes did up to now to `sink`, and gives that time, by the kernel's boot clock. After drain(), so
  // that it holds what came before the stacks.
  std::uint64_t drain_tasks(TaskSink& sink);
  // Ends the epoch: afterwards `sink`, full or not, has had every fold of the epoch, and the bank holds exactly the
  // ticks that those folds (and the losses) add up to. Blocks for a grace period, about 10 ms. With `forget`, every
  // stack counts as not sent from here on: a stack that `sink` has not seen again since this call began may be dropped
  // after it.
  Result<Bank> flush(Sink& sink, bool forget);

  // How user stacks are walked.
  [[nodiscard]] UnwindStore& unwind_store();
  // kFentry or kSweep: what is in force now.
  [[nodiscard]] Lifecycle lifecycle() const;
  // What the programs' clock is ahead of this process's boot clock: 0 but in a time namespace of its own.
  [[nodiscard]] std::int64_t clock_shift_ns() const;
  [[nodiscard]] ContextState context_state() const;
  // True where nobody had pinned a context map before us.
  [[nodiscard]] bool context_created() const;

 private:
  class Impl;
  explicit Recorder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace spanfold::bpf
