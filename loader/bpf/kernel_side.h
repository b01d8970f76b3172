// SPDX-License-Identifier: Apache-2.0
// The programs and what hangs on them: their maps, the ring, the clocks. Another set of programs can take over from the
// one that runs, without losing what that gathered.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "bpf/banks.h"
#include "bpf/clock_events.h"
#include "bpf/events.h"
#include "bpf/hook_watch.h"
#include "bpf/programs.h"
#include "bpf/record_view.h"
#include "bpf/targets.h"
#include "bpf/unwind_store.h"

struct ring_buffer;

namespace spanfold::bpf {

class KernelSide {
 public:
  KernelSide() = default;
  KernelSide(const KernelSide&) = delete;
  KernelSide& operator=(const KernelSide&) = delete;
  ~KernelSide();

  // Loads the programs and opens the clocks; called again, the new programs take over, and run if the old ones did.
  Status load(ProgramOptions options, std::uint32_t frequency_hz, const std::vector<int>& cpus);

  [[nodiscard]] Targets targets() const;
  Status start();
  void stop() { clocks_->disable(); }
  Status set_frequency(std::uint32_t frequency_hz) { return clocks_->set_frequency(frequency_hz); }
  // Ticks that the clocks have owed, those of replaced programs included.
  [[nodiscard]] std::uint64_t owed() const { return owed_before_ + clocks_->owed(); }

  // One and the same descriptor, whatever takes over; readable when the ring wants to be emptied.
  [[nodiscard]] int wakeup_fd() const { return wakeup_.get(); }
  // What it held when this was called, oldest first, as far as `sink` wants it. Programs that write faster than we read
  // do not keep us here.
  Status drain(Sink& sink) { return consume(sink, ring_bytes(), Flow::kUntilFull); }

  // Holds all records against the context map, as they are now, once.
  Status sweep();
  // Sweeps until nothing of an epoch before the present one is left, and drains.
  Status sweep_out(Sink& sink);
  // The programs' boot clock, from a run of one of them.
  Result<std::uint64_t> read_clock_ns();

  // Steps the epoch, and returns when no program runs any more that read the old one. With `forget`, stacks that were
  // sent before count as not sent in the new one.
  Result<std::uint32_t> step_epoch(bool forget);
  // What the bank of an epoch that is over gathered.
  Result<Bank> read_bank(std::uint32_t epoch) { return banks_->read(epoch); }

  // Binds another context map; false where its shape differs from the one that the programs were loaded for.
  [[nodiscard]] bool bind_context(int fd, std::uint32_t id);
  // Puts entries of `context_fd` whose threads are gone out of sight; how many there are.
  std::size_t mark_left_behind(int context_fd);

  [[nodiscard]] UnwindStore& unwind_store() { return *unwind_store_; }

  [[nodiscard]] bool hooked() const { return hooked_; }
  void unhook();
  // Runs of hooks for other maps, a second, since the last call.
  [[nodiscard]] std::uint64_t take_foreign_rate() { return hook_watch_.take_foreign_rate(*skeleton_); }
  // Hooks that the kernel skipped: HookWatch says what is to be called when.
  void count_misses_before_step() { hook_watch_.before_step(*skeleton_); }
  [[nodiscard]] HookMisses::OfFlush take_misses() { return hook_watch_.after_step(*skeleton_); }
  // Spans that threads carry now.
  [[nodiscard]] std::vector<SpanContext> carried() const { return view_.carried(); }

 private:
  struct RingDeleter {
    void operator()(ring_buffer* ring) const;
  };

  static int on_message(void* self, void* data, std::size_t bytes);
  enum class Flow : std::uint8_t { kUntilFull, kAll };
  Status consume(Sink& sink, std::size_t most_bytes, Flow flow);
  [[nodiscard]] std::size_t ring_bytes() const;
  Status open_ring();
  Status open_maps();
  Status open_unwind_store();
  Status wait_for_programs();
  Status sweep_from(std::size_t bucket);

  Skeleton skeleton_;
  bool hooked_ = false;
  bool started_ = false;
  int context_fd_ = -1;  // bound, owned by the recorder
  Fd wakeup_;            // an epoll descriptor around the ring's own
  std::unique_ptr<ring_buffer, RingDeleter> ring_;
  std::unique_ptr<ClockEvents> clocks_;
  std::unique_ptr<Banks> banks_;
  RecordView view_;
  std::optional<UnwindStore> unwind_store_;
  HookWatch hook_watch_;
  std::uint64_t owed_before_ = 0;
  // Of the drain at hand.
  Sink* sink_ = nullptr;
  Flow flow_ = Flow::kAll;
  std::size_t most_bytes_ = 0;
  std::size_t consumed_bytes_ = 0;
  std::uint64_t malformed_ = 0;
};

}  // namespace spanfold::bpf
