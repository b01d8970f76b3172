// SPDX-License-Identifier: Apache-2.0
// Processes that come and go. `--mode`:
//   tree        a parent in a span forks children, each in a span of its own; half of them exec this binary again
//   short       a row of processes that live for a few milliseconds each, all of it inside a span
//   exec        burns inside a span, then becomes `--then PATH --then-arg ARG` without leaving it, same pid
//   background  burns outside of any span
#include <sys/personality.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>
#include <vector>

#include "workload.h"

using workload::burn;

[[WORKLOAD_KEEP]] void parent_work(std::uint64_t cpu_ns) { burn(cpu_ns); }
[[WORKLOAD_KEEP]] void forked_work(std::uint64_t cpu_ns) { burn(cpu_ns); }
[[WORKLOAD_KEEP]] void execed_work(std::uint64_t cpu_ns) { burn(cpu_ns); }
[[WORKLOAD_KEEP]] void short_work(std::uint64_t cpu_ns) { burn(cpu_ns); }
[[WORKLOAD_KEEP]] void before_exec(std::uint64_t cpu_ns) { burn(cpu_ns); }
[[WORKLOAD_KEEP]] void background_work(std::uint64_t cpu_ns) { burn(cpu_ns); }

namespace {

enum Kind : std::uint8_t { kParent = 1, kForked, kExeced, kShort, kBeforeExec };

void become(const std::vector<std::string>& command) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execv(words[0], words.data());
  std::perror(words[0]);
  _exit(127);
}

void in_span(Kind kind, std::uint64_t serial, void (*work)(std::uint64_t), std::uint64_t cpu_ns) {
  workload::begin(workload::make_ids(kind, 0, serial, 11, serial));
  work(cpu_ns);
  workload::end();
}

// Forks `run` and returns; run's process ends with it.
template <typename Run>
void spawn(Run run) {
  const pid_t pid = fork();
  if (pid < 0) {
    std::perror("fork");
    std::exit(1);
  }
  if (pid != 0) return;
  run();
  _exit(0);
}

std::string own_path() {
  char path[4096] = {};
  return readlink("/proc/self/exe", path, sizeof(path) - 1) > 0 ? path : "/proc/self/exe";
}

void run_tree(const std::string& self, unsigned children, std::uint64_t cpu_ns) {
  workload::begin(workload::make_ids(kParent, 0, 0, 11, 0));
  for (unsigned i = 0; i < children; ++i) {
    spawn([&] {
      if (i % 2 == 0) in_span(kForked, i, forked_work, cpu_ns);
      if (i % 2 == 1)
        become({self, "--mode", "leaf", "--serial", std::to_string(i), "--ms", std::to_string(cpu_ns / 1'000'000)});
    });
  }
  parent_work(cpu_ns);
  workload::end();
}

void run_short(unsigned children, std::uint64_t cpu_ns) {
  for (unsigned i = 0; i < children; ++i) {
    spawn([&] { in_span(kShort, i, short_work, cpu_ns); });
    wait(nullptr);
  }
}

// Both programs at the same address: then a frame named by the wrong file gets a name, and a test can see it.
void without_random_addresses(char** words) {
  if (personality(0xffffffff) & ADDR_NO_RANDOMIZE) return;
  personality(ADDR_NO_RANDOMIZE);
  execv(own_path().c_str(), words);
  std::perror("exec");
}

}  // namespace

int main(int count, char** words) {
  const workload::Options options(count, words);
  options.allow("--mode", "--children", "--ms", "--serial", "--then", "--then-arg", "--exit");
  const std::string mode = options.text("--mode", "tree");
  const std::uint64_t cpu_ns = static_cast<std::uint64_t>(options.count("--ms", 200)) * 1'000'000;
  const unsigned children = options.count("--children", 4);
  if (mode == "tree") {
    run_tree(own_path(), children, cpu_ns);
  } else if (mode == "leaf") {
    in_span(kExeced, options.count("--serial", 0), execed_work, cpu_ns);
  } else if (mode == "short") {
    run_short(children, cpu_ns);
  } else if (mode == "background") {
    background_work(cpu_ns);
  } else if (mode == "exec") {
    without_random_addresses(words);
    workload::begin(workload::make_ids(kBeforeExec, 0, 0, 11, 0));
    before_exec(cpu_ns);
    become({options.text("--then"), "--seconds", options.text("--then-arg", "1")});
  } else {
    std::fprintf(stderr, "family: no such mode: %s\n", mode.c_str());
    return 2;
  }
  while (wait(nullptr) > 0) {
  }
  return static_cast<int>(options.count("--exit", 0));
}
