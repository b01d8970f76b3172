// SPDX-License-Identifier: Apache-2.0
// Prints what a walk over a user stack costs by the kernel's helper and by ours, on the same samples, and how many
// frames each finds. Needs root. usage: walk [COMMAND ARGS…]; without a command, a toy that keeps frame pointers.
#include "bench/walk.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "app/unwinding.h"
#include "bpf/core.h"
#include "bpf/unwind_store.h"
#include "proc/symbolizer.h"
#include "walk.skel.h"

// clang, which lints, does not know the attribute.
#if defined(__clang__)
#define KEEPS_FRAME_POINTERS __attribute__((noinline))
#else
#define KEEPS_FRAME_POINTERS __attribute__((noinline, optimize("no-omit-frame-pointer", "no-optimize-sibling-calls")))
#endif

namespace {

using spanfold::ImageTag;
using spanfold::ProcessKey;

constexpr std::array kEnds = {"no user", "bottom",      "depth",     "no space", "no mapping", "no table",
                              "no rule", "unsupported", "bad frame", "fault",    "zero"};

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): what the toy works on
volatile std::uint64_t sink;
volatile bool running = true;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

KEEPS_FRAME_POINTERS void descend(int depth) {
  if (depth > 0) {
    descend(depth - 1);
    sink = sink + 1;
    return;
  }
  while (running) sink = sink + 1;
}

pid_t start(char** argv, int depth) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  if (argv == nullptr) {
    descend(depth);
  } else {
    execvp(argv[0], argv);
  }
  _exit(127);
}

struct Seen {
  ProcessKey key;
  ImageTag image;
};

// What the kernel side would say of a process: its start time is in ticks of 10 ms there, and exact in the kernel.
Seen look_at(pid_t pid, walk_bpf& skeleton);

int open_clock(pid_t pid, int hz) {
  perf_event_attr attributes{};
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.size = sizeof attributes;
  attributes.config = PERF_COUNT_SW_CPU_CLOCK;
  attributes.freq = 1;
  attributes.sample_freq = static_cast<std::uint64_t>(hz);
  return static_cast<int>(syscall(SYS_perf_event_open, &attributes, pid, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

walk_sums sums_of(walk_bpf& skeleton) {
  const auto cpus = static_cast<std::size_t>(libbpf_num_possible_cpus());
  std::vector<walk_sums> values(cpus);
  const std::uint32_t zero = 0;
  bpf_map_lookup_elem(bpf_map__fd(skeleton.maps.sums), &zero, values.data());
  walk_sums sum{};
  for (const walk_sums& value : values) {
    sum.runs += value.runs;
    sum.helper_ns += value.helper_ns;
    sum.ours_ns += value.ours_ns;
    sum.helper_frames += value.helper_frames;
    sum.ours_frames += value.ours_frames;
    for (std::size_t i = 0; i < std::size(sum.ends); ++i) sum.ends[i] += value.ends[i];
  }
  return sum;
}

Seen look_at(pid_t pid, walk_bpf& skeleton) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream words(text.substr(text.rfind(')') + 2));
  std::vector<std::uint64_t> fields(3);  // state, ppid, pgrp come as 3, 4, 5
  std::string word;
  while (words >> word) fields.push_back(std::strtoull(word.c_str(), nullptr, 10));
  // Fields count from 1; the third is the first one behind the name.
  const auto field = [&](std::size_t number) { return fields.at(number); };
  Seen seen;
  sf_scratch work{};
  const auto cpus = static_cast<std::size_t>(libbpf_num_possible_cpus());
  std::vector<sf_scratch> scratch(cpus);
  const std::uint32_t zero = 0;
  while (seen.key.pid != static_cast<std::uint32_t>(pid)) {
    usleep(20'000);
    bpf_map_lookup_elem(bpf_map__fd(skeleton.maps.scratch), &zero, scratch.data());
    for (const sf_scratch& each : scratch) {
      if (each.msg.process.tgid == static_cast<std::uint32_t>(pid)) work = each;
    }
    seen.key = {.start_boottime_ns = work.msg.process.start_ns,
                .pid = work.msg.process.tgid,
                .exec_id = work.msg.process.exec_id};
  }
  seen.image = {.start_code = field(26), .end_code = field(27), .start_stack = field(28)};
  return seen;
}

void print(const std::string& name, const walk_sums& before, const walk_sums& after) {
  const auto runs = static_cast<double>(after.runs - before.runs);
  const auto each = [&](std::uint64_t from, std::uint64_t to) { return static_cast<double>(to - from) / runs; };
  const double helper = each(before.helper_ns, after.helper_ns);
  const double ours = each(before.ours_ns, after.ours_ns);
  fmt::print("{:24} {:7.0f} {:8.1f} {:8.1f} {:10.0f} {:8.0f} {:6.2f} ", name, runs,
             each(before.helper_frames, after.helper_frames), each(before.ours_frames, after.ours_frames), helper, ours,
             ours / helper);
  for (std::size_t i = 0; i < kEnds.size(); ++i) {
    const std::uint64_t count = after.ends[i] - before.ends[i];
    if (count > 0) fmt::print(" {} {:.1f} %", kEnds[i], 100.0 * static_cast<double>(count) / runs);
  }
  fmt::print("\n");
}

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<int>(std::strtol(text, nullptr, 10));
}

}  // namespace

int main(int argc, char** argv) {
  const int hz = setting("WALK_HZ", 997);
  const int seconds = setting("WALK_SECONDS", 4);
  const int depth = setting("WALK_DEPTH", 12);
  walk_bpf* skeleton = walk_bpf::open();
  bpf_map__set_max_entries(skeleton->maps.chunks, 8);
  bpf_map__set_max_entries(skeleton->maps.ranges, 4096);
  bpf_map__set_max_entries(skeleton->maps.spaces, 64);
  bpf_map__set_max_entries(skeleton->maps.processes, 64);
  skeleton->rodata->knobs.max_frames = SF_USER_FRAMES;
  if (walk_bpf::load(skeleton) != 0) return 1;
  const pid_t pid = start(argc > 1 ? argv + 1 : nullptr, depth);
  usleep(500'000);
  const int clock = open_clock(pid, hz);
  const bpf_link* link = bpf_program__attach_perf_event(skeleton->progs.on_walk, clock);
  if (link == nullptr) return 1;
  auto store = spanfold::bpf::UnwindStore::open({.spaces = bpf_map__fd(skeleton->maps.spaces),
                                                 .ranges = bpf_map__fd(skeleton->maps.ranges),
                                                 .sections = bpf_map__fd(skeleton->maps.sections),
                                                 .chunks = bpf_map__fd(skeleton->maps.chunks),
                                                 .rules = bpf_map__fd(skeleton->maps.rules),
                                                 .range_count = 4096,
                                                 .chunk_count = 8});
  if (!store) return 1;
  store->use_version(&skeleton->bss->spaces_version);
  spanfold::proc::Symbolizer symbolizer({});
  spanfold::app::Unwinding unwinding(symbolizer);
  if (!unwinding.use(*store)) return 1;
  const Seen seen = look_at(pid, *skeleton);
  fmt::print("{:24} {:>7} {:>8} {:>8} {:>10} {:>8} {:>6}\n", "", "samples", "frames", "ours", "helper ns", "ours ns",
             "ratio");
  symbolizer.notice(seen.key, seen.image, 0);
  unwinding.look(seen.key);
  for (int i = 0; i < 10; ++i) {
    usleep(100'000);
    unwinding.take_tables();
  }
  for (int i = 0; i < seconds; ++i) {
    const walk_sums before = sums_of(*skeleton);
    sleep(1);
    print(argc > 1 ? argv[1] : "toy", before, sums_of(*skeleton));
  }
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  return 0;
}
