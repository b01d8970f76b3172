// SPDX-License-Identifier: Apache-2.0
// The BPF programs: sized, configured, loaded and attached. Owns the skeleton.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "bpf/events.h"

struct spanfold_bpf;

namespace spanfold::bpf {

// Sizes of what the kernel side keeps; each is rounded up to what its map needs.
struct Sizes {
  std::uint32_t ring_bytes = 1U << 20;  // messages on their way
  std::uint32_t buckets = 512;          // of eight records: threads that are in spans at one time
  std::uint32_t tables = 64;            // spans that outgrew their inline slots at one time
  std::uint32_t sent_sets = 4096;       // of eight stack ids: distinct stacks that need not be sent again
  std::uint32_t processes = 4096;       // processes with a background share of their own
  std::uint32_t targets = 16384;        // processes and threads that a filter names
  std::uint32_t unwind_chunks = 4;      // of a MiB: tables of unwinding
  std::uint32_t unwind_ranges = 8192;   // pieces of code of all processes that were in a span
  std::uint32_t unwind_spaces = 1024;   // such processes
  std::uint32_t task_bytes = 1U << 17;  // what processes do, on each CPU
};

// Hooks on the context map's changes.
enum class Hooks : std::uint8_t {
  kNone,
  kTry,   // go on without them where the kernel refuses, and say so
  kMust,  // an error where the kernel refuses
};

struct ProgramOptions {
  Sizes sizes;
  std::uint64_t seed = 0;  // random
  bool filter_targets = false;
  bool filter_members = false;
  std::uint32_t cgroups = 0;  // of v2, at most kMostGroups
  bool follow_forks = false;
  bool background_stacks = false;
  bool span_times = false;
  std::uint64_t max_age_ns = 0;  // 0: no limit
  std::uint32_t max_frames = kMostUserFrames;
  Hooks hooks = Hooks::kNone;
  int context_fd = -1;           // the adopted context map; -1: none
  std::uint32_t context_id = 0;  // of the map behind it
  // Programs that run now: the new ones take over their maps, epoch and all that was gathered.
  const spanfold_bpf* successor_of = nullptr;
};

struct SkeletonDeleter {
  void operator()(spanfold_bpf* skeleton) const;
};
using Skeleton = std::unique_ptr<spanfold_bpf, SkeletonDeleter>;

struct Programs {
  Skeleton skeleton;
  bool hooked = false;
};

// Loads and attaches everything but the clock events. Errors that say "this host cannot" end with exit code 3; the
// verifier's last lines are in the log at debug level.
[[nodiscard]] Result<Programs> load_programs(const ProgramOptions& options);

// Has the context map's changes go unseen from here on.
void unhook(spanfold_bpf& skeleton);

}  // namespace spanfold::bpf
