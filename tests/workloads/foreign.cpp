// SPDX-License-Identifier: Apache-2.0
// Changes to a thread's entry that others make: a publisher sets and deletes it while the thread works or sleeps, and
// entries of others push it out. Logs each stay, as `spans` does.
#include <sched.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lane.h"
#include "workload.h"

namespace {

using workload::Lane;

// What spans are here (byte 0 of their ids is one more).
enum Kind : unsigned {
  kTold = 0,     // their thread ran inside of them and after them
  kSilent = 1,   // their thread slept all the time
  kEndLost = 2,  // a silent one took its place and went, before the thread ran again
};

// Changes the entry of a thread that asks for it, in a thread of its own.
class Publisher {
 public:
  // `delay_ns`: until whoever asked is in the midst of its work, or asleep.
  explicit Publisher(std::uint64_t delay_ns) : delay_ns_(delay_ns), thread_([this] { run(); }) {}
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;
  ~Publisher() {
    ask({});
    thread_.join();
  }

  void ask(std::function<void()> change) {
    change_ = std::move(change);
    asked_.release();
  }
  void await() { done_.acquire(); }

 private:
  void run() {
    for (asked_.acquire(); change_; asked_.acquire()) {
      workload::sleep_ns(delay_ns_);
      change_();
      done_.release();
    }
  }

  std::uint64_t delay_ns_;
  std::function<void()> change_;
  std::binary_semaphore asked_{0};
  std::binary_semaphore done_{0};
  std::thread thread_;
};

// One thread, and who acts for it.
class Worker {
 public:
  explicit Worker(const workload::LanePlan& plan) : plan_(plan), lane_(plan, 0), publisher_(plan.work_ns / 2) {}

  // All ways to begin and to end a span, then what others see of a thread that does not run.
  void round(std::uint64_t serial) {
    constexpr unsigned kWays = 3;
    const auto way = static_cast<unsigned>(serial % (kWays * kWays + 3));
    if (way < kWays * kWays) {
      change(way % kWays, [&] { lane_.enter(lane_.ids(kTold, serial)); });
      work(kTold);
      change(way / kWays, [&] { lane_.leave(); });
    } else if (way == kWays * kWays) {
      replaced_while_busy(serial);
    } else if (way == kWays * kWays + 1) {
      while_asleep([&] {
        lane_.enter(lane_.ids(kSilent, serial));
        lane_.leave();
      });
    } else {
      replaced_while_asleep(serial);
    }
    work(kTold);
  }

  bool be_evicted(std::uint64_t serial) {
    lane_.enter(lane_.ids(kTold, serial));
    work(kTold);
    const bool gone = lane_.be_evicted();
    work(kTold);
    return gone;
  }

  [[nodiscard]] const std::vector<workload::Stay>& log() const { return lane_.log; }

 private:
  // Another trace than those of rounds.
  static constexpr std::uint64_t kNext = 1ULL << 32U;

  void work(Kind kind) const { workload::kWork[kind](plan_.work_ns); }
  void while_asleep(const std::function<void()>& act) {
    publisher_.ask([&] {
      lane_.await_sleep();
      act();
    });
    publisher_.await();
  }
  void while_busy(const std::function<void()>& act) {
    publisher_.ask(act);
    work(kTold);
    publisher_.await();
  }
  void change(unsigned way, const std::function<void()>& act) {
    if (way == 0) act();
    if (way == 1) while_busy(act);
    if (way == 2) while_asleep(act);
  }

  void replaced_while_busy(std::uint64_t serial) {
    while_busy([&] { lane_.enter(lane_.ids(kTold, serial)); });
    while_busy([&] { lane_.replace(lane_.ids(kTold, serial + kNext)); });
    while_busy([&] { lane_.leave(); });
  }
  void replaced_while_asleep(std::uint64_t serial) {
    while_asleep([&] { lane_.enter(lane_.ids(kEndLost, serial)); });
    work(kEndLost);
    while_asleep([&] {
      lane_.replace(lane_.ids(kSilent, serial + kNext));
      workload::sleep_ns(plan_.work_ns);
      lane_.leave();
    });
  }

  const workload::LanePlan& plan_;
  Lane lane_;
  Publisher publisher_;
};

void stay_on_this_cpu() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(sched_getcpu(), &cpus);
  if (sched_setaffinity(0, sizeof(cpus), &cpus) != 0) std::perror("sched_setaffinity");
}

}  // namespace

int main(int count, char** words) {
  const workload::Options options(count, words);
  options.allow("--pattern", "--spans", "--work-us", "--ctx-map", "--log");
  workload::LanePlan plan;
  plan.map = std::make_unique<workload::ContextMap>(options.text("--ctx-map"));
  plan.work_ns = static_cast<std::uint64_t>(options.number("--work-us", 20'000) * 1e3);
  plan.seed = 13;
  const bool evicted = options.text("--pattern", "published") == "evicted";

  if (evicted) stay_on_this_cpu();
  Worker worker(plan);
  for (std::uint64_t serial = 0; serial < options.count("--spans", 72); ++serial) {
    if (!evicted) {
      worker.round(serial);
    } else if (!worker.be_evicted(serial)) {
      std::fputs("foreign: the entry is not pushed out\n", stderr);
      return 1;
    }
  }
  workload::write_log(options.text("--log"), worker.log());
  std::printf("stays %zu\n", worker.log().size());
  return 0;
}
