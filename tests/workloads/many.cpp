// SPDX-License-Identifier: Apache-2.0
// A great many short spans at an even rate, each with an id of its own and too little CPU for more than one sample.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "workload.h"

[[WORKLOAD_KEEP]] void short_work(std::uint64_t turns) { workload::spin(turns); }

namespace {

struct Plan {
  std::uint64_t interval_ns = 0;  // between the spans of one thread
  std::uint64_t turns = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::atomic<std::uint64_t> spans = 0;
};

void run_thread(Plan& plan, unsigned thread) {
  std::uint64_t serial = 0;
  // In batches of a millisecond: a sleep for each span would cost more than the spans.
  for (std::uint64_t now_ns = plan.start_ns; now_ns < plan.end_ns; now_ns = workload::steady_ns()) {
    const std::uint64_t due = (now_ns - plan.start_ns) / plan.interval_ns;
    for (; serial < due; ++serial) {
      workload::begin(workload::make_ids(1, static_cast<std::uint8_t>(thread), serial, 3, serial * 256 + thread));
      short_work(plan.turns);
      workload::end();
    }
    workload::sleep_ns(1'000'000);
  }
  plan.spans += serial;
}

}  // namespace

int main(int count, char** words) {
  const workload::Options options(count, words);
  options.allow("--rate", "--seconds", "--threads", "--turns");
  const unsigned wanted = std::clamp(options.count("--threads", 2), 1U, 64U);
  Plan plan;
  plan.turns = options.count("--turns", 20'000);
  plan.interval_ns = static_cast<std::uint64_t>(1e9 * wanted / std::max(options.number("--rate", 10'000), 1.0));
  plan.start_ns = workload::steady_ns();
  plan.end_ns = plan.start_ns + static_cast<std::uint64_t>(options.number("--seconds", 10) * 1e9);

  std::vector<std::thread> threads;
  for (unsigned i = 0; i < wanted; ++i) threads.emplace_back([&plan, i] { run_thread(plan, i); });
  for (std::thread& thread : threads) thread.join();
  std::printf("spans %llu\n", static_cast<unsigned long long>(plan.spans.load()));
  return 0;
}
