// SPDX-License-Identifier: Apache-2.0
// Many logical tasks on one thread: a helper rewrites the looping thread's entry by system call and tells it which
// function to run, and for a while deletes the entry. Byte 0 of a span id is the task's function, task_work<byte 0 -
// 1>.
#include <array>
#include <atomic>
#include <cstdio>
#include <thread>
#include <utility>

#include "context_map.h"
#include "workload.h"

constexpr unsigned kFunctions = 200;

template <unsigned kTask>
[[WORKLOAD_KEEP]] void task_work(std::uint64_t turns) {
  workload::spin(turns);
  asm volatile("" ::"i"(kTask));
}
[[WORKLOAD_KEEP]] void unlinked_work(std::uint64_t turns) {
  workload::spin(turns);
  asm volatile("");
}

namespace {

using Work = void (*)(std::uint64_t);

template <std::size_t... kIndex>
constexpr std::array<Work, sizeof...(kIndex)> all_tasks(std::index_sequence<kIndex...> /*indices*/) {
  return {task_work<kIndex>...};
}
constexpr auto kTasks = all_tasks(std::make_index_sequence<kFunctions>());
constexpr unsigned kNoTask = kFunctions;
constexpr unsigned kStop = kFunctions + 1;

void loop(std::atomic<unsigned>& task) {
  for (unsigned now = task; now != kStop; now = task) {
    if (now == kNoTask) {
      unlinked_work(2000);
    } else {
      kTasks[now](2000);
    }
  }
}

}  // namespace

int main(int count, char** words) {
  const workload::Options options(count, words);
  options.allow("--ctx-map", "--seconds", "--unlinked-seconds", "--step-ms");
  const workload::ContextMap map(options.text("--ctx-map"));
  const std::uint64_t key = workload::ContextMap::own_key();
  const auto step_ns = static_cast<std::uint64_t>(options.number("--step-ms", 1) * 1e6);
  const double seconds = options.number("--seconds", 3);
  const double unlinked_seconds = options.number("--unlinked-seconds", 1);

  std::atomic<unsigned> task = kNoTask;
  std::thread helper([&] {
    const std::uint64_t end_ns = workload::steady_ns() + static_cast<std::uint64_t>(seconds * 1e9);
    for (std::uint64_t serial = 0; workload::steady_ns() < end_ns; ++serial) {
      const auto index = static_cast<unsigned>(serial % kFunctions);
      map.set(key, workload::make_ids(static_cast<std::uint8_t>(index + 1), 0, index, 5, index));
      task = index;
      workload::sleep_ns(step_ns);
    }
    map.clear(key);
    task = kNoTask;
    workload::sleep_ns(static_cast<std::uint64_t>(unlinked_seconds * 1e9));
    task = kStop;
  });
  loop(task);
  helper.join();
  std::printf("cpu_ns %llu\n", static_cast<unsigned long long>(workload::thread_cpu_ns()));
  return 0;
}
