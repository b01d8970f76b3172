// SPDX-License-Identifier: Apache-2.0
// Takes what the kernel side says, names stacks at first sight, adds up deltas, and makes a window of each flush.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "app/options.h"
#include "app/span_times.h"
#include "app/unwinding.h"
#include "app/window_time.h"
#include "base/frame.h"
#include "base/process.h"
#include "bpf/events.h"
#include "proc/symbolizer.h"
#include "profile/model.h"

namespace spanfold::app {

struct GatherOptions {
  bool local_symbols = true;
  bool lines = false;
  Background background = Background::kCount;
  bool span_times = false;
  // Frames of known stacks, 32 bytes each. Beyond, stacks that are not seen again are forgotten at the next flush.
  std::size_t most_frames = std::size_t{1} << 18;
  // A window of that many rows, or pieces of stays, is full: some 200 and 400 bytes each until it is written.
  std::size_t most_rows = std::size_t{1} << 16;
  std::size_t most_stays = std::size_t{1} << 15;
};

class Gather : public bpf::Sink {
 public:
  explicit Gather(const GatherOptions& options);

  void on_stack(const bpf::StackSeen& seen) override;
  void on_fold(const bpf::FoldDelta& fold) override;
  // True when the present window, or during a flush the next one, is not to grow further: a flush should come ahead of
  // its time. What comes nevertheless is taken.
  [[nodiscard]] bool full() const override;

  // What processes do goes here.
  [[nodiscard]] TaskSink& tasks() { return symbolizer_.tasks(); }
  // Called every now and then while stacks are being named, which may take long: for what must not wait. It may give
  // all that the kernel side says to this object meanwhile. Where it gives false, lines that take longer are not waited
  // for.
  void when_busy(std::function<bool()> action) { when_busy_ = std::move(action); }
  // Makes tables of unwinding of the files that these processes have mapped.
  void prepare_tables(std::span<const std::uint32_t> pids);
  // What the kernel side needs to walk stacks.
  [[nodiscard]] Unwinding& unwinding() { return unwinding_; }
  // Looks at the processes of the stacks that came since the last call; all that processes did up to `told_ns` is
  // known.
  void notice(std::uint64_t told_ns);

  // Reads the kernel's symbols now and not at the first kernel frame: tens of milliseconds, and some megabytes that are
  // better taken at the beginning than later.
  void prepare() { symbolizer_.prepare_kernel(); }

  // True when the next flush should make the kernel side send stacks anew, so that old ones can be dropped.
  [[nodiscard]] bool wants_to_forget() const { return frames_ > options_.most_frames; }
  // Call before a flush of the kernel side: stacks that arrive from here on outlive its forgetting.
  void begin_flush() {
    ++flush_;
    flushing_ = true;
  }
  // The window of the flush, sampled at `frequency_hz`. Its frames live until the next call of anything here.
  profile::Window window(const bpf::Bank& bank, const WindowTime& time, std::uint32_t frequency_hz);
  // After the window was written: drops what it needed and nothing else does.
  void end_flush(bool forget);

  [[nodiscard]] std::uint64_t spans() const { return spans_; }
  [[nodiscard]] std::uint64_t frames_lost() const { return frames_lost_; }
  // Of the last window.
  [[nodiscard]] std::uint64_t span_times_left_out() const { return span_times_.left_out(); }

 private:
  struct Stack {
    std::vector<Frame> frames;
    std::uint32_t seen_in = 0;  // the flush it was last sent in
    std::uint64_t key = 0;      // of the frames with their names
    std::uint64_t names_version = 0;
    std::uint64_t lines_version = 0;
  };
  struct Unnamed {
    std::uint64_t stack_id = 0;
    ProcessKey process;
    ImageTag image;
    std::uint64_t boottime_ns = 0;
    std::vector<std::uint64_t> kernel;
    std::vector<std::uint64_t> user;
    bpf::WalkEnd end = bpf::WalkEnd::kNoUser;
  };
  struct Row {
    ProcessKey process;
    SpanContext span;
    std::uint64_t stack_id = 0;
    std::uint64_t samples = 0;
  };
  using Processes = std::map<ProcessKey, profile::ProcessSamples>;

  void add_rows(Processes& processes);
  void add_background(const bpf::Bank& bank, Processes& processes);
  void add_span_times(const bpf::Bank& bank, const WindowTime& time, Processes& processes);
  profile::ProcessSamples& process_of(const ProcessKey& key, Processes& processes);
  void name_stacks();
  void name_arrived(const std::function<bool()>& busy);
  void name(const Unnamed& raw);
  void rename_stacks();
  void count_spans();
  void forget_stacks();

  GatherOptions options_;
  proc::Symbolizer symbolizer_;
  Unwinding unwinding_{symbolizer_};
  profile::Attributes host_;
  std::unordered_map<std::uint64_t, Stack> stacks_;
  std::vector<Unnamed> unnamed_;
  std::size_t unnamed_frames_ = 0;
  std::size_t noticed_ = 0;  // of them
  std::function<bool()> when_busy_ = [] { return true; };
  std::size_t frames_ = 0;      // in all of them
  std::vector<Row> rows_;       // of the epoch that is being gathered
  std::vector<Row> next_rows_;  // of the one after it: what ticks while a flush is under way
  SpanTimes span_times_;
  std::uint32_t epoch_ = 0;  // being gathered
  std::uint32_t flush_ = 0;
  bool flushing_ = false;
  std::unordered_set<std::uint64_t> known_spans_;  // hashes, so that a span across flushes counts once
  std::uint64_t spans_ = 0;
  std::uint64_t frames_lost_ = 0;  // samples whose frames never came
};

}  // namespace spanfold::app
