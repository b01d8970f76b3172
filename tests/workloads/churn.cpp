// SPDX-License-Identifier: Apache-2.0
// Changes maps at a rate, or as fast as the kernel does it: the threads' own contexts, those of a great many threads
// that do not exist, or a map that has nothing to do with contexts.
#include "churn.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "churn.skel.h"
#include "workload.h"

namespace {

struct Plan {
  int program = -1;
  std::uint64_t mode = CHURN_OWN;
  std::uint64_t keys = 0;
  double rate = 0;  // of one thread, 0: what the machine gives
  std::uint64_t start_ns = 0, end_ns = 0;
  std::atomic<std::uint64_t> changes = 0;
};

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "churn: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

std::uint64_t mode_of(const std::string& name) {
  if (name == "own") return CHURN_OWN;
  if (name == "keys") return CHURN_KEYS;
  if (name == "foreign") return CHURN_FOREIGN;
  std::fprintf(stderr, "churn: no mode %s: own, keys or foreign\n", name.c_str());
  std::exit(2);
}

void run_thread(Plan& plan, unsigned thread) {
  const std::uint64_t each = plan.mode == CHURN_OWN ? 2 * CHURN_STEPS : CHURN_STEPS;
  std::uint64_t runs = 0;
  for (std::uint64_t now_ns = plan.start_ns; now_ns < plan.end_ns; now_ns = workload::steady_ns()) {
    const double due = static_cast<double>(now_ns - plan.start_ns) * 1e-9 * plan.rate;
    if (plan.rate > 0 && static_cast<double>(runs * each) > due) {
      workload::sleep_ns(1'000'000);
      continue;
    }
    const std::uint64_t serial = runs++ * CHURN_STEPS;
    std::uint64_t args[] = {plan.mode, (static_cast<std::uint64_t>(thread) << 40U) + serial};
    if (plan.mode != CHURN_OWN) args[1] = serial % plan.keys;
    LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = args, .ctx_size_in = sizeof(args));
    if (bpf_prog_test_run_opts(plan.program, &options) != 0) die("run the program");
  }
  plan.changes += runs * each;
}

}  // namespace

int main(int count, char** words) {
  const workload::Options options(count, words);
  options.allow("--mode", "--ctx-map", "--threads", "--seconds", "--rate", "--keys", "--after-ms");
  const unsigned wanted = std::clamp(options.count("--threads", 1), 1U, 64U);
  Plan plan;
  plan.mode = mode_of(options.text("--mode", "own"));
  plan.keys = std::max(options.count("--keys", 100'000), 1U);
  plan.rate = options.number("--rate", 0) / wanted;

  churn_bpf* churn = churn_bpf__open();
  if (churn == nullptr) die("open the program");
  const std::string map = options.text("--ctx-map");
  if (!map.empty() && bpf_map__reuse_fd(churn->maps.traces_ctx_v1, bpf_obj_get(map.c_str())) != 0) {
    die("adopt the context map");
  }
  if (churn_bpf__load(churn) != 0) die("load the program");
  plan.program = bpf_program__fd(churn->progs.on_churn);

  plan.start_ns = workload::steady_ns();
  plan.end_ns = plan.start_ns + static_cast<std::uint64_t>(options.number("--seconds", 3) * 1e9);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < wanted; ++i) threads.emplace_back([&plan, i] { run_thread(plan, i); });
  for (std::thread& thread : threads) thread.join();
  const double seconds = static_cast<double>(workload::steady_ns() - plan.start_ns) * 1e-9;
  std::printf("changes %llu seconds %.3f\n", static_cast<unsigned long long>(plan.changes.load()), seconds);
  std::fflush(stdout);
  workload::sleep_ns(static_cast<std::uint64_t>(options.number("--after-ms", 0) * 1e6));
  churn_bpf__destroy(churn);
  return 0;
}
