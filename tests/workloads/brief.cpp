// SPDX-License-Identifier: Apache-2.0
// A great many processes that live for milliseconds (brief.h), `--at-once` at a time, once there is a file `--go`.
// `--mode`:
//   exec    each of them executes one of the two programs in turn, and `--chain` more after it
//   fork    they go on as what forked them
//   copies  each of them executes a file of its own below `--folder`, that is removed when it has ended
//   reuse   as exec, but all with one and the same pid, one at a time
//   leaf    is one of them itself
// `--fixed 1`: all programs lie at the same addresses.
#include "brief.h"

#include <fcntl.h>
#include <sys/personality.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <deque>
#include <utility>

[[WORKLOAD_KEEP]] void brief_work(std::uint64_t cpu_ns) { workload::burn(cpu_ns); }

namespace {

struct Plan {
  std::string mode;
  std::string folder;
  unsigned at_once = 1;
  pid_t pid = 0;  // of all, in reuse
};

void without_random_addresses(char** words) {
  if ((personality(0xffffffff) & ADDR_NO_RANDOMIZE) != 0) return;
  personality(ADDR_NO_RANDOMIZE);
  execv(brief::own_path().c_str(), words);
  std::perror("exec");
}

// The next process gets `pid`, if nobody is quicker.
void ask_for(pid_t pid) {
  const int file = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
  const std::string text = std::to_string(pid - 1);
  if (file < 0 || write(file, text.c_str(), text.size()) < 0) std::perror("ns_last_pid");
  close(file);
}

std::string copy_of(const std::string& path, const std::string& folder, std::uint64_t serial) {
  std::string copy = folder + "/copy-" + std::to_string(serial);
  const int from = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const int to = open(copy.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
  struct stat status {};
  if (from < 0 || to < 0 || fstat(from, &status) != 0 ||
      sendfile(to, from, nullptr, status.st_size) != status.st_size) {
    std::perror(copy.c_str());
    std::exit(1);
  }
  close(from);
  close(to);
  return copy;
}

[[noreturn]] void run_child(const Plan& plan, const brief::Leaf& leaf, const std::string& program) {
  if (plan.mode == "fork") {
    leaf.run(brief::kBrief, brief_work);
    _exit(0);
  }
  // Whoever got the wrong pid is none of them.
  if (plan.pid != 0 && getpid() != plan.pid) _exit(3);
  brief::become(leaf.command(program));
}

pid_t start_one(const Plan& plan, const brief::Leaf& leaf) {
  const std::string self = brief::own_path();
  std::string program = leaf.serial % 2 == 0 ? self : brief::other_path(self);
  if (plan.mode == "copies") program = copy_of(program, plan.folder, leaf.serial);
  if (plan.pid != 0) ask_for(plan.pid);
  const pid_t pid = fork();
  if (pid < 0) {
    std::perror("fork");
    std::exit(1);
  }
  if (pid == 0) run_child(plan, leaf, program);
  return pid;
}

// Waits for the process of `leaf`; false if it was none of them.
bool end_one(const Plan& plan, const brief::Leaf& leaf, pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  if (plan.mode == "copies") unlink((plan.folder + "/copy-" + std::to_string(leaf.serial)).c_str());
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void run_all(Plan plan, const brief::Leaf& first, unsigned processes) {
  if (plan.mode == "reuse") {
    plan.pid = fork();
    if (plan.pid == 0) _exit(0);
    waitpid(plan.pid, nullptr, 0);
  }
  const std::uint64_t end = first.serial + processes * std::uint64_t{1 + first.chain};
  std::deque<std::pair<brief::Leaf, pid_t>> running;
  unsigned wrong = 0;
  for (brief::Leaf leaf = first; (leaf.serial < end || !running.empty()) && wrong < 100 * processes;) {
    while (running.size() < plan.at_once && leaf.serial < end) {
      running.emplace_back(leaf, start_one(plan, leaf));
      leaf.serial += 1 + leaf.chain;
    }
    const auto [oldest, pid] = running.front();
    running.pop_front();
    if (end_one(plan, oldest, pid)) continue;
    ++wrong;
    leaf = oldest;
  }
  std::printf("programs %llu wrong %u\n", static_cast<unsigned long long>(end - first.serial), wrong);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  const workload::Options options(count, words);
  options.allow("--mode", "--serial", "--ms", "--chain", "--ctx-map", "--processes", "--folder", "--fixed", "--go",
                "--after-ms", "--at-once");
  const brief::Leaf leaf(options);
  const Plan plan{.mode = options.text("--mode", "exec"),
                  .folder = options.text("--folder"),
                  .at_once = options.count("--at-once", 1)};
  if (plan.mode == "leaf") {
    leaf.run(brief::kBrief, brief_work);
    return 0;
  }
  if (options.count("--fixed", 0) != 0) without_random_addresses(words);
  std::printf("ready\n");
  std::fflush(stdout);
  const std::string go = options.text("--go");
  while (!go.empty() && access(go.c_str(), F_OK) != 0) workload::sleep_ns(10'000'000);
  run_all(plan, leaf, options.count("--processes", 100));
  workload::sleep_ns(static_cast<std::uint64_t>(options.number("--after-ms", 0) * 1e6));
  return 0;
}
