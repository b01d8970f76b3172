// SPDX-License-Identifier: Apache-2.0
// Threads that set and delete their contexts at full speed. Each span id has one function that only runs inside it, so
// a sample in a wrong span shows: hammer_work<thread, phase> belongs to kind phase + 1 and, unless ids are shared, to
// that thread alone (byte 1 of the id).
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "context_map.h"
#include "workload.h"

constexpr unsigned kPhases = 4;
constexpr unsigned kMaxThreads = 8;

struct Plan {
  bool shared_ids = true;
  std::unique_ptr<workload::ContextMap> map;  // null: through the writer's programs
  std::uint64_t turns = 0;                    // of work inside a span
  std::uint64_t end_ns = 0;
  std::uint64_t pool = kPhases;  // ids of its own that a thread takes in turn; a multiple of kPhases
  std::atomic<std::uint64_t> spans = 0;
};

// One span from end to end, so that also what setting and deleting cost is seen in this function.
template <unsigned kThread, unsigned kPhase>
[[WORKLOAD_KEEP]] void hammer_work(const Plan& plan, const workload::SpanIds& ids, std::uint64_t key) {
  if (plan.map) {
    plan.map->set(key, ids);
    workload::spin(plan.turns);
    plan.map->clear(key);
  } else {
    workload::begin(ids);
    workload::spin(plan.turns);
    workload::end();
  }
  asm volatile("" ::"i"(kThread * kPhases + kPhase));
}

namespace {

using Work = void (*)(const Plan&, const workload::SpanIds&, std::uint64_t);

template <std::size_t... kIndex>
constexpr std::array<Work, sizeof...(kIndex)> all_work(std::index_sequence<kIndex...> /*indices*/) {
  return {hammer_work<kIndex / kPhases, kIndex % kPhases>...};
}
constexpr auto kWork = all_work(std::make_index_sequence<std::size_t{kMaxThreads} * kPhases>());

void run_thread(Plan& plan, unsigned thread) {
  const std::uint64_t key = workload::ContextMap::own_key();
  std::uint64_t done = 0;
  for (; (done & 255U) != 0 || workload::steady_ns() < plan.end_ns; ++done) {
    // Shared ids change for all threads together every few hundred spans, so that all are on one id most of the time.
    const std::uint64_t turn = plan.shared_ids ? plan.spans.fetch_add(1, std::memory_order_relaxed) / 512 : done;
    const auto phase = static_cast<unsigned>(turn % kPhases);
    const std::uint64_t serial = plan.shared_ids ? phase : done % plan.pool;
    const auto owner = static_cast<std::uint8_t>(plan.shared_ids ? 0 : thread);
    kWork[thread * kPhases + phase](
        plan, workload::make_ids(static_cast<std::uint8_t>(phase + 1), owner, serial, 7, serial), key);
  }
  if (!plan.shared_ids) plan.spans += done;
}

}  // namespace

int main(int count, char** words) {
  const workload::Options options(count, words);
  options.allow("--threads", "--first", "--ids", "--seconds", "--turns", "--pool", "--ctx-map");
  Plan plan;
  plan.shared_ids = options.text("--ids", "shared") == "shared";
  const std::string map = options.text("--ctx-map");  // given: publish by system calls on this map
  if (!map.empty()) plan.map = std::make_unique<workload::ContextMap>(map);
  plan.turns = options.count("--turns", 2000);
  plan.pool = std::max<std::uint64_t>(options.count("--pool", kPhases) / kPhases, 1) * kPhases;
  plan.end_ns = workload::steady_ns() + static_cast<std::uint64_t>(options.number("--seconds", 3) * 1e9);

  std::vector<std::thread> threads;
  // Processes with other first threads have other functions, and other ids of their own.
  const unsigned first = std::min(options.count("--first", 0), kMaxThreads - 1);
  const unsigned wanted = std::clamp(options.count("--threads", 2), 1U, kMaxThreads - first);
  for (unsigned i = first; i < first + wanted; ++i) threads.emplace_back([&plan, i] { run_thread(plan, i); });
  for (std::thread& thread : threads) thread.join();
  std::printf("spans %llu\n", static_cast<unsigned long long>(plan.spans.load()));
  return 0;
}
