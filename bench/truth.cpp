// SPDX-License-Identifier: Apache-2.0
// Holds our walk over the stacks of a running process against libdw's, frame by frame, on the same registers and the
// same copy of the stack: prints how many stacks reach their bottom, how the others end, and each kind of difference.
// Needs root. usage: truth [PID [SECONDS [HZ]]]; without a process, a toy.
#include "bench/truth.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "app/unwinding.h"
#include "bench/libdw_walk.h"
#include "bpf/unwind_store.h"
#include "proc/symbolizer.h"
#include "truth.skel.h"

namespace {

using namespace spanfold;  // NOLINT(google-build-using-namespace): nothing includes this
using bench::LibdwWalk;

constexpr std::array kEnds = {"no user", "bottom",      "depth",     "no space", "no mapping", "no table",
                              "no rule", "unsupported", "bad frame", "fault",    "zero"};

// What becomes of the samples, by kind of difference.
class Comparison {
 public:
  explicit Comparison(LibdwWalk& theirs) : theirs_(theirs) {}

  void add(const truth_sample& sample) {
    const LibdwWalk::Stack& stack = theirs_.walk(sample);
    const std::size_t ours = sample.frames;
    std::size_t common = 0;
    while (common < std::min(ours, stack.frames.size()) && sample.frame[common] == stack.frames[common]) ++common;
    ++samples_;
    frames_ += common;
    if (common == ours && common == stack.frames.size()) {
      ++same_;
      return;
    }
    const bool described = common > 0 && theirs_.is_described(sample.frame[common - 1], common == 1);
    const std::string last =
        common > 0 ? theirs_.name_of(sample.frame[common - 1], common == 1) : "the innermost frame";
    std::string kind;
    if (common == ours) {
      kind = fmt::format("ours ends ({})", kEnds.at(sample.end));
    } else if (common == stack.frames.size()) {
      kind = fmt::format("libdw ends ({})", stack.end);
    } else {
      kind = "another caller";
    }
    kind += described ? "" : ", no call-frame information";
    if (!described) ++undescribed_;
    Kind& known = kinds_[kind + " of " + last];
    if (known.samples++ == 0) known.example = example(sample, stack);
  }

  void print(std::size_t most) const {
    fmt::print(
        "compared {} samples, {} common frames: same {:.2f} %, as far as there is call-frame information {:.2f} %\n",
        samples_, frames_, percent(same_), percent(same_ + undescribed_));
    std::vector<std::pair<std::string, Kind>> kinds(kinds_.begin(), kinds_.end());
    std::ranges::stable_sort(kinds, std::greater{}, [](const auto& kind) { return kind.second.samples; });
    for (std::size_t i = 0; i < std::min(most, kinds.size()); ++i) {
      fmt::print("{:8} {}\n", kinds[i].second.samples, kinds[i].first);
      if (std::getenv("TRUTH_EXAMPLES") != nullptr) fmt::print("{}", kinds[i].second.example);
    }
  }

 private:
  struct Kind {
    std::uint64_t samples = 0;
    std::string example;
  };

  [[nodiscard]] double percent(std::uint64_t part) const {
    return samples_ == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(samples_);
  }

  std::string example(const truth_sample& sample, const LibdwWalk::Stack& stack) {
    std::string text = fmt::format("         sp {:x}, copied {}, {}\n", sample.registers[7], sample.stack_bytes,
                                   sample.in_kernel != 0 ? "in the kernel" : "in user space");
    constexpr std::size_t kMost = 40;
    for (std::size_t i = 0; i < std::min(kMost, std::max<std::size_t>(sample.frames, stack.frames.size())); ++i) {
      const auto name = [&](bool there, std::uint64_t pc) {
        return there ? fmt::format("{:x} {}", pc, theirs_.name_of(pc, i == 0)) : std::string("-");
      };
      const std::uint64_t mine = i < sample.frames ? sample.frame[i] : 0;
      const std::uint64_t theirs = i < stack.frames.size() ? stack.frames[i] : 0;
      text += fmt::format("         {:60} {}\n", name(i < sample.frames, mine),
                          mine == theirs ? "=" : name(i < stack.frames.size(), theirs));
    }
    return text;
  }

  LibdwWalk& theirs_;
  std::uint64_t samples_ = 0;
  std::uint64_t frames_ = 0;
  std::uint64_t same_ = 0;
  std::uint64_t undescribed_ = 0;
  std::map<std::string, Kind> kinds_;
};

// The side of the loader: tables for the process, and what changes in it.
class Target {
 public:
  static constexpr std::uint32_t kRanges = 16'384;
  static constexpr std::uint32_t kChunks = 16;

  explicit Target(bpf::UnwindStore& store) : unwinding_(symbolizer_) { ready_ = bool{unwinding_.use(store)}; }

  void see(const truth_sample& sample) {
    const ProcessKey key{
        .start_boottime_ns = sample.process.start_ns, .pid = sample.process.tgid, .exec_id = sample.process.exec_id};
    const ImageTag image{.start_code = sample.image.start_code,
                         .end_code = sample.image.end_code,
                         .start_stack = sample.image.start_stack};
    symbolizer_.notice(key, image, 0);
    if (sample.end == SF_END_NO_MAPPING) symbolizer_.look_again(key, image);
    unwinding_.look(key);
    unwinding_.take_tables();
  }
  void take_tables() { unwinding_.take_tables(); }
  [[nodiscard]] bool ready() const { return ready_; }

 private:
  proc::Symbolizer symbolizer_{{}};
  app::Unwinding unwinding_;
  bool ready_ = false;
};

truth_sums sums_of(const truth_bpf& skeleton) {
  std::vector<truth_sums> values(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  const std::uint32_t zero = 0;
  bpf_map_lookup_elem(bpf_map__fd(skeleton.maps.sums), &zero, values.data());
  truth_sums sum{};
  for (const truth_sums& value : values) {
    sum.runs += value.runs;
    for (std::size_t i = 0; i < std::size(sum.ends); ++i) sum.ends[i] += value.ends[i];
  }
  return sum;
}

bool attach(const truth_bpf& skeleton, std::uint64_t hz) {
  perf_event_attr attributes{};
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.size = sizeof attributes;
  attributes.config = PERF_COUNT_SW_CPU_CLOCK;
  attributes.freq = 1;
  attributes.sample_freq = hz;
  for (int cpu = 0; cpu < libbpf_num_possible_cpus(); ++cpu) {
    const auto clock = static_cast<int>(syscall(SYS_perf_event_open, &attributes, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC));
    if (clock < 0) continue;  // that CPU is off
    if (bpf_program__attach_perf_event(skeleton.progs.on_truth, clock) == nullptr) return false;
  }
  return true;
}

struct Run {
  Target* target = nullptr;
  Comparison* comparison = nullptr;
  bool counts = false;
};

int take_sample(void* context, void* data, std::size_t /*bytes*/) {
  const Run& run = *static_cast<Run*>(context);
  const auto& sample = *static_cast<const truth_sample*>(data);
  run.target->see(sample);
  if (run.counts) run.comparison->add(sample);
  return 0;
}

void poll_for(ring_buffer* ring, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) ring_buffer__poll(ring, 50);
}

int compare(truth_bpf& skeleton, bpf::UnwindStore& store, pid_t pid, double seconds, std::uint64_t hz) {
  Target target(store);
  LibdwWalk theirs(pid);
  Comparison comparison(theirs);
  Run run{.target = &target, .comparison = &comparison};
  ring_buffer* ring = ring_buffer__new(bpf_map__fd(skeleton.maps.samples), take_sample, &run, nullptr);
  skeleton.bss->target = static_cast<std::uint32_t>(pid);
  if (!target.ready() || ring == nullptr || !attach(skeleton, hz)) return 1;
  // Samples that come before the tables say so, and prove nothing.
  constexpr double kWarmUp = 1.5;
  poll_for(ring, kWarmUp);
  ring_buffer__consume(ring);
  run.counts = true;
  skeleton.bss->counts = 1;
  poll_for(ring, seconds);
  skeleton.bss->counts = 0;
  ring_buffer__consume(ring);
  const truth_sums sums = sums_of(skeleton);
  fmt::print("{} samples:", sums.runs);
  for (std::size_t i = 0; i < kEnds.size(); ++i) {
    if (sums.ends[i] == 0) continue;
    fmt::print(" {} {:.2f} %", kEnds[i], 100.0 * static_cast<double>(sums.ends[i]) / static_cast<double>(sums.runs));
  }
  fmt::print("\n");
  constexpr std::size_t kMostKinds = 25;
  comparison.print(kMostKinds);
  ring_buffer__free(ring);
  return sums.runs > 0 ? 0 : 1;
}

pid_t start_toy() {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  std::vector<int> numbers(20'000);
  for (unsigned seed = 1;; ++seed) {
    std::ranges::generate(numbers, [&] { return static_cast<int>(seed = seed * 1664525 + 1013904223); });
    std::stable_sort(numbers.begin(), numbers.end());
    qsort(numbers.data(), numbers.size(), sizeof(int),
          [](const void* a, const void* b) { return *static_cast<const int*>(b) - *static_cast<const int*>(a); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  truth_bpf* skeleton = truth_bpf::open();
  bpf_map__set_max_entries(skeleton->maps.chunks, Target::kChunks);
  bpf_map__set_max_entries(skeleton->maps.ranges, Target::kRanges);
  bpf_map__set_max_entries(skeleton->maps.spaces, 64);
  bpf_map__set_max_entries(skeleton->maps.processes, 64);
  skeleton->rodata->knobs.max_frames = SF_USER_FRAMES;
  if (truth_bpf::load(skeleton) != 0) return 1;
  auto store = bpf::UnwindStore::open({.spaces = bpf_map__fd(skeleton->maps.spaces),
                                       .ranges = bpf_map__fd(skeleton->maps.ranges),
                                       .sections = bpf_map__fd(skeleton->maps.sections),
                                       .chunks = bpf_map__fd(skeleton->maps.chunks),
                                       .rules = bpf_map__fd(skeleton->maps.rules),
                                       .range_count = Target::kRanges,
                                       .chunk_count = Target::kChunks});
  if (!store) return 1;
  store->use_version(&skeleton->bss->spaces_version);
  const pid_t toy = argc > 1 ? 0 : start_toy();
  const pid_t pid = argc > 1 ? static_cast<pid_t>(std::strtol(argv[1], nullptr, 10)) : toy;
  const int code = compare(*skeleton, *store, pid, argc > 2 ? std::strtod(argv[2], nullptr) : 4,
                           argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 997);
  if (toy != 0) {
    kill(toy, SIGKILL);
    waitpid(toy, nullptr, 0);
  }
  return code;
}
