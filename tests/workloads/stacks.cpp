// SPDX-License-Identifier: Apache-2.0
// Spans of many stacks: each way through a tree of functions is one, and ends in the span's own leaf. The serial number
// in a span id is that of its leaf, and the digits of a way and its leaf add up to a multiple of ten: so a stack that
// this program cannot have shows.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

#include "workload.h"

constexpr unsigned kDigits = 10;
constexpr unsigned kLevels = 4;  // the last of them makes up the sum
constexpr unsigned kLeaves = 200;

struct Way {
  std::array<unsigned, kLevels> digits{};
  unsigned leaf = 0;
  std::uint64_t cpu_ns = 0;
  std::uint64_t spent_ns = 0;
};
using Step = void (*)(Way&);
extern const std::array<std::array<Step, kDigits>, kLevels> kBranches;
extern const std::array<Step, kLeaves> kLeafSteps;

template <unsigned kLeaf>
[[WORKLOAD_KEEP]] void leaf(Way& way) {
  asm volatile("" ::"i"(kLeaf));
  way.spent_ns = workload::burn(way.cpu_ns);
}

template <unsigned kLevel, unsigned kDigit>
[[WORKLOAD_KEEP]] void branch(Way& way) {
  if constexpr (kLevel + 1 < kLevels) {
    kBranches[kLevel + 1][way.digits[kLevel + 1]](way);
  } else {
    kLeafSteps[way.leaf](way);
  }
  asm volatile("" ::"i"(kDigit));  // a frame of its own: no tail call
}

template <unsigned kLevel, std::size_t... kDigit>
constexpr std::array<Step, kDigits> level(std::index_sequence<kDigit...> /*digits*/) {
  return {branch<kLevel, kDigit>...};
}
template <std::size_t... kLevel>
constexpr std::array<std::array<Step, kDigits>, kLevels> all_branches(std::index_sequence<kLevel...> /*levels*/) {
  return {level<kLevel>(std::make_index_sequence<kDigits>())...};
}
template <std::size_t... kLeaf>
constexpr std::array<Step, kLeaves> all_leaves(std::index_sequence<kLeaf...> /*leaves*/) {
  return {leaf<kLeaf>...};
}
const std::array<std::array<Step, kDigits>, kLevels> kBranches = all_branches(std::make_index_sequence<kLevels>());
const std::array<Step, kLeaves> kLeafSteps = all_leaves(std::make_index_sequence<kLeaves>());

namespace {

struct Plan {
  unsigned spans = kLeaves;
  unsigned stacks = 100;  // in each span
  unsigned rounds = 1;    // through all stacks of a span
  unsigned threads = 2;
  std::uint64_t cpu_ns = 0;  // of a stack in a round
  std::atomic<unsigned> next = 0;
  std::atomic<std::uint64_t> spent_ns = 0;
};

Way way_of(unsigned stack, unsigned leaf, std::uint64_t cpu_ns) {
  Way way{.digits = {stack / 100, stack / 10 % 10, stack % 10}, .leaf = leaf, .cpu_ns = cpu_ns};
  way.digits[3] = (5 * kDigits * kDigits - way.digits[0] - way.digits[1] - way.digits[2] - leaf) % kDigits;
  return way;
}

void run_thread(Plan& plan, unsigned thread) {
  for (unsigned span = plan.next++; span < plan.spans; span = plan.next++) {
    const unsigned leaf = span % kLeaves;
    workload::begin(workload::make_ids(1, static_cast<std::uint8_t>(thread), leaf, 17, span));
    for (unsigned i = 0; i < plan.rounds * plan.stacks; ++i) {
      Way way = way_of(i % plan.stacks, leaf, plan.cpu_ns);
      kBranches[0][way.digits[0]](way);
      plan.spent_ns += way.spent_ns;
    }
    workload::end();
  }
}

}  // namespace

int main(int count, char** words) {
  const workload::Options options(count, words);
  options.allow("--spans", "--stacks", "--rounds", "--threads", "--cpu-us");
  Plan plan;
  plan.spans = options.count("--spans", kLeaves);
  plan.stacks = std::clamp(options.count("--stacks", 100), 1U, 1000U);
  plan.rounds = options.count("--rounds", 1);
  plan.cpu_ns = static_cast<std::uint64_t>(options.number("--cpu-us", 500) * 1e3);

  std::vector<std::thread> threads;
  const unsigned wanted = std::clamp(options.count("--threads", 2), 1U, 64U);
  for (unsigned i = 0; i < wanted; ++i) threads.emplace_back([&plan, i] { run_thread(plan, i); });
  for (std::thread& thread : threads) thread.join();
  std::printf("cpu_ns %llu\n", static_cast<unsigned long long>(plan.spent_ns.load()));
  return 0;
}
