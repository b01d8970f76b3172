// SPDX-License-Identifier: Apache-2.0
// What the kernel side has to say, in the loader's own words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/frame.h"
#include "base/process.h"

namespace spanfold::bpf {

// The kernel's own walk of its half ends here.
inline constexpr std::uint32_t kMostKernelFrames = 127;
// Ours of the user's half ends here at the latest.
inline constexpr std::uint32_t kMostUserFrames = 128;

// Why the walk of a user stack ended where it did; all but the first two ends are not the stack's own.
enum class WalkEnd : std::uint8_t {
  kNoUser = 0,   // there is no user half
  kBottom,       // the outermost frame
  kDepth,        // more frames than are kept
  kNoSpace,      // what the process has mapped is not known yet
  kNoMapping,    // an address outside all its code
  kNoTable,      // the file's rules are not there: not yet, or they do not fit
  kNoRule,       // the file says nothing about this code
  kUnsupported,  // what it says is beyond our rules
  kBadFrame,     // the caller's frame would not lie above the callee's
  kFault,        // the stack cannot be read
  kZero,         // a return address or frame pointer of zero
};

// Who knew the span of a fold.
enum class ContextSource : std::uint8_t { kNone = 0, kMap = 1 };

// First sight of a stack. Spans live as long as the call that hands this over.
struct StackSeen {
  std::uint64_t stack_id = 0;
  ProcessKey process;
  ImageTag image;
  std::uint64_t boottime_ns = 0;
  std::span<const std::uint64_t> kernel;  // instruction pointers, leaf first; empty: the sample did not hit the kernel
  std::span<const std::uint64_t> user;    // instruction pointers, leaf first
  WalkEnd end = WalkEnd::kNoUser;
};

struct StackCount {
  std::uint64_t stack_id = 0;
  std::uint32_t samples = 0;
};

// What gathered for one thread and one span since its last delta. Its time is one stay, or the piece of one that lies
// in this epoch; stays closer than SF_LINGER_NS are one.
struct FoldDelta {
  std::uint32_t epoch = 0;  // the flush whose counters hold these samples
  ContextSource source = ContextSource::kNone;
  SpanContext span;  // invalid: work outside any span
  ProcessKey process;
  std::uint32_t tid = 0;
  std::uint64_t first_boottime_ns = 0;  // begin of the stay, or its first sample where the begin was not seen
  std::uint64_t last_boottime_ns = 0;   // its end, or when it was last known to go on
  std::uint64_t on_thread_ns = 0;  // of that, on the thread; 0: no stay to tell of (more slots of one that was told)
  bool begin_seen = false;         // first_boottime_ns is exact
  bool end_seen = false;           // last_boottime_ns is exact
  bool gone = false;               // the thread no longer carries the span, not even under a nested one
  bool switched = false;           // the thread left its CPU meanwhile: a missed hook may hide in here
  std::vector<StackCount> stacks;  // may be empty where span times are asked for
};

class Sink {
 public:
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;
  virtual void on_stack(const StackSeen& stack) = 0;
  virtual void on_fold(const FoldDelta& fold) = 0;
  // Whether the rest should wait in the ring for a flush.
  [[nodiscard]] virtual bool full() const { return false; }
};

// The counters of one flush: differences, exact for the epoch.
struct Bank {
  std::uint32_t epoch = 0;
  std::uint64_t ticks = 0;
  std::uint64_t in_span = 0;
  std::uint64_t background = 0;
  std::uint64_t idle = 0;
  std::uint64_t filtered = 0;
  std::map<std::string, std::uint64_t> dropped;                  // by reason; all reasons are there
  std::map<std::string, std::uint64_t> side;                     // figures beside the fates, by name
  std::uint64_t missed = 0;                                      // ticks that the clock owed and no program saw
  std::optional<std::uint64_t> recursion_misses;                 // hooks that the kernel skipped; none: no hook
  bool blind = false;                                            // a change may have gone unseen by the hooks
  std::uint64_t unsampled = 0;                                   // spans that left a thread without a sample
  std::uint64_t spent_ns = 0;                                    // in our programs, on all CPUs together
  std::vector<SpanContext> carried;                              // with span times: on some thread now, sorted
  std::vector<std::pair<ProcessKey, std::uint64_t>> by_process;  // shares of the background; the rest is all others'
  std::vector<ProcessKey> carriers;                              // of by_process: those that were in a span, sorted
};

}  // namespace spanfold::bpf
