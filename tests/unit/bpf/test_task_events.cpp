// SPDX-License-Identifier: Apache-2.0
// The kernel's own records: what a child does is told in its order, whatever CPUs it was on, and a full ring is.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/clock.h"
#include "bpf/task_events.h"
#include "unit/bpf/task_bytes.h"

namespace spanfold::bpf::test {
namespace {

constexpr std::size_t kRingBytes = 1UL << 17;

// Null where this host does not let us.
std::optional<TaskEvents> started(std::size_t ring_bytes = kRingBytes) {
  auto events = TaskEvents::open(ring_bytes);
  if (!events) {
    MESSAGE("SKIPPED: ", events.error().message());
    return {};
  }
  REQUIRE(events->start());
  return std::move(*events);
}

void move_to(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ::sched_setaffinity(0, sizeof(one), &one);
}

std::vector<std::string> of_pid(const std::vector<std::string>& lines, pid_t pid) {
  std::vector<std::string> found;
  for (const std::string& line : lines) {
    const std::string text = line.substr(line.find(' ') + 1);  // without the time
    const std::string number = " " + std::to_string(pid);
    if ((text + " ").find(number + " ") != std::string::npos) found.push_back(text);
  }
  return found;
}

// A child that maps a file in executable memory, forks, and executes `true`, each on another CPU.
pid_t run_child() {
  const pid_t pid = ::fork();
  if (pid != 0) {
    ::waitpid(pid, nullptr, 0);
    return pid;
  }
  const long cpus = ::sysconf(_SC_NPROCESSORS_ONLN);
  for (int i = 0; i < 8; ++i) {
    move_to(static_cast<int>(i % cpus));
    ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  ::execl("/bin/true", "true", nullptr);
  ::_exit(1);
}

}  // namespace

TEST_CASE("forks, mappings, execs and exits come in their order") {
  auto events = started();
  if (!events) return;
  for (int round = 0; round < 20; ++round) {
    const std::uint64_t before_ns = boot_clock_ns();
    const pid_t pid = run_child();
    Lines lines;
    events->drain(boot_clock_ns(), lines);
    CHECK(std::is_sorted(lines.lines.begin(), lines.lines.end()));  // times have as many digits
    const auto found = of_pid(lines.lines, pid);
    const std::string number = std::to_string(pid);
    REQUIRE(found.size() > 12);
    CHECK(found[0] == fmt::format("fork {} {} by {}", number, number, ::getpid()));
    for (std::size_t i = 1; i < 9; ++i) CHECK(found[i] == "map " + number + " //anon");
    CHECK(found[9] == "exec " + number);
    CHECK(found[10].starts_with("map " + number + " /"));
    CHECK(found.back() == fmt::format("exit {} {}", number, number));
    CHECK(std::stoull(lines.lines.front()) > before_ns - 1'000'000'000);
    CHECK(std::stoull(lines.lines.back()) < boot_clock_ns());
  }
}

TEST_CASE("what is newer than asked for waits for the next time") {
  auto events = started();
  if (!events) return;
  const std::uint64_t before_ns = boot_clock_ns();
  const pid_t pid = run_child();
  Lines lines;
  events->drain(before_ns, lines);
  CHECK(of_pid(lines.lines, pid).empty());
  events->drain(boot_clock_ns(), lines);
  CHECK(of_pid(lines.lines, pid).size() > 12);
}

TEST_CASE("a ring that fills up wakes, and then is told to have lost something") {
  auto events = started(8192);
  if (!events) return;
  pollfd woken{.fd = events->wakeup_fd(), .events = POLLIN, .revents = 0};
  for (int i = 0; i < 40; ++i) run_child();
  CHECK(::poll(&woken, 1, 0) == 1);
  Lines lines;
  events->drain(boot_clock_ns(), lines);
  const auto lost = [&] {
    return std::count_if(lines.lines.begin(), lines.lines.end(),
                         [](const std::string& line) { return line.find(" lost ") != std::string::npos; });
  };
  CHECK(lost() > 0);
  // Each CPU's ring says so once more.
  const long cpus = ::sysconf(_SC_NPROCESSORS_CONF);
  for (long i = 0; i < cpus && ::poll(&woken, 1, 0) == 1; ++i) events->drain(boot_clock_ns(), lines);
  CHECK(::poll(&woken, 1, 0) == 0);
  // The kernel speaks of it when it has room again; after that all is well, but for what others do to so small a ring.
  bool well = false;
  for (int i = 0; i < 100 && !well; ++i) {
    lines.lines.clear();
    const pid_t pid = run_child();
    events->drain(boot_clock_ns(), lines);
    well = lost() == 0 && of_pid(lines.lines, pid).size() > 12;
  }
  CHECK(well);
}

}  // namespace spanfold::bpf::test
