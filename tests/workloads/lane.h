// SPDX-License-Identifier: Apache-2.0
// A thread's way through spans, and a log of each stay by this program's own clock: the times just before and just
// after the call that begins it, and around the one that ends it. Byte 0 of a span id is its kind + 1, and only
// span_work<kind> runs inside it.
#pragma once

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "context_map.h"
#include "workload.h"

constexpr unsigned kMaxKinds = 8;

// By the clock and not by CPU time: a look at that is a system call.
template <unsigned kKind>
[[WORKLOAD_KEEP]] void span_work(std::uint64_t duration_ns) {
  const std::uint64_t end_ns = workload::steady_ns() + duration_ns;
  do {
    workload::spin(200);
  } while (workload::steady_ns() < end_ns);
  asm volatile("" ::"i"(kKind));
}

namespace workload {

using Work = void (*)(std::uint64_t);

template <std::size_t... kKind>
constexpr std::array<Work, sizeof...(kKind)> all_work(std::index_sequence<kKind...> /*kinds*/) {
  return {span_work<kKind>...};
}
inline constexpr auto kWork = all_work(std::make_index_sequence<kMaxKinds>());

// How a stay ended.
enum Left : std::uint32_t { kDeleted = 0, kOverwritten = 1, kThreadEnded = 2, kEvicted = 3 };

// A line of the log (tests/e2e/lifecycle.py reads it), CLOCK_REALTIME.
struct Stay {
  SpanIds ids;
  std::uint32_t tid = 0;
  std::uint32_t left = kDeleted;
  std::uint32_t depth = 0;
  std::uint32_t pad = 0;
  std::uint64_t begin_after_ns = 0, begin_before_ns = 0;  // the begin lies before the one and after the other
  std::uint64_t end_after_ns = 0, end_before_ns = 0;
};
static_assert(sizeof(Stay) == 72);

// What the lanes of a run have in common.
struct LanePlan {
  std::unique_ptr<ContextMap> map;  // null: through the writer's programs
  std::uint64_t work_ns = 0;
  std::uint64_t seed = 0;
};

// The spans that the thread is in that made it, and its part of the log. Other threads may act for it, one at a time.
class Lane {
 public:
  Lane(const LanePlan& plan, unsigned number)
      : plan_(plan),
        number_(number),
        key_(ContextMap::own_key()),
        tid_(static_cast<std::uint32_t>(syscall(SYS_gettid))) {}

  [[nodiscard]] SpanIds ids(unsigned kind, std::uint64_t serial) const {
    const std::uint64_t trace = static_cast<std::uint64_t>(number_) << 48U | serial;
    return make_ids(static_cast<std::uint8_t>(kind + 1), static_cast<std::uint8_t>(number_), serial, plan_.seed, trace);
  }

  void enter(const SpanIds& ids) {
    Stay stay{.ids = ids, .tid = tid_, .depth = static_cast<std::uint32_t>(inside_.size())};
    stay.begin_after_ns = wall_ns();
    if (plan_.map) {
      plan_.map->set(key_, ids);
    } else {
      workload::begin(ids);
    }
    stay.begin_before_ns = wall_ns();
    if (!inside_.empty()) close(stay.begin_after_ns, stay.begin_before_ns, kOverwritten);
    inside_.push_back(stay);
  }

  // Into a span of another trace, with no way back.
  void replace(const SpanIds& ids) {
    enter(ids);
    inside_.erase(inside_.begin(), inside_.end() - 1);
  }

  // Back into the span around it, if any.
  void leave() {
    const std::uint64_t after_ns = wall_ns();
    if (!plan_.map) {
      workload::end();
    } else if (inside_.size() > 1) {
      plan_.map->set(key_, inside_[inside_.size() - 2].ids);
    } else {
      plan_.map->clear(key_);
    }
    const std::uint64_t before_ns = wall_ns();
    close(after_ns, before_ns, kDeleted);
    inside_.pop_back();
    if (inside_.empty()) return;
    inside_.back().begin_after_ns = after_ns;
    inside_.back().begin_before_ns = before_ns;
  }

  // Sets entries of threads that there are not, until they push out its own. False: that stays. On one CPU only: what
  // was set lately is in a list of the CPU that set it, which nobody else takes from while others have room.
  bool be_evicted() {
    constexpr std::uint64_t kNobody = 1ULL << 62U;  // a process id that no kernel gives
    constexpr std::uint64_t kMostSets = 1U << 20U;
    std::uint64_t after_ns = inside_.back().begin_after_ns;
    for (std::uint64_t sets = 0; sets < kMostSets; ++sets) {
      const std::uint64_t now_ns = wall_ns();
      const std::uint64_t key = kNobody | (pushed_++ & 0xffffU);
      // Twice, since only what is used as well makes others old that are.
      plan_.map->set(key, inside_.back().ids);
      plan_.map->set(key, inside_.back().ids);
      if (!plan_.map->has(key_)) {
        close(after_ns, wall_ns(), kEvicted);
        inside_.clear();
        return true;
      }
      after_ns = now_ns;
    }
    return false;
  }

  // For another thread: until this one sleeps.
  void await_sleep() const {
    const std::string path = "/proc/self/task/" + std::to_string(tid_) + "/stat";
    for (std::string stat; stat.find(") S ") == std::string::npos; sleep_ns(100'000)) {
      std::getline(std::ifstream(path), stat);
    }
  }

  // The thread ends inside of its spans.
  void abandon() {
    close(wall_ns(), 0, kThreadEnded);
    inside_.clear();
  }
  // What only who joined the thread knows. Joining may come before the end: that is when its number goes.
  void joined() {
    const std::string folder = "/proc/self/task/" + std::to_string(tid_);
    while (access(folder.c_str(), F_OK) == 0) sched_yield();
    const std::uint64_t now_ns = wall_ns();
    for (Stay& stay : log) {
      if (stay.end_before_ns == 0) stay.end_before_ns = now_ns;
    }
  }

  void work() const { kWork[inside_.size() - 1](plan_.work_ns); }

  std::vector<Stay> log;

 private:
  void close(std::uint64_t after_ns, std::uint64_t before_ns, Left left) {
    Stay stay = inside_.back();
    stay.end_after_ns = after_ns;
    stay.end_before_ns = before_ns;
    stay.left = left;
    log.push_back(stay);
  }

  const LanePlan& plan_;
  unsigned number_;
  std::uint64_t key_;
  std::uint32_t tid_;
  std::vector<Stay> inside_;  // outermost first
  std::uint64_t pushed_ = 0;  // entries set of threads that there are not
};

inline void write_log(const std::string& path, const std::vector<Stay>& log) {
  if (path.empty()) return;
  std::FILE* file = open_or_die(path);
  std::fwrite(log.data(), sizeof(Stay), log.size(), file);
  if (std::fclose(file) != 0) std::perror(path.c_str());
}

}  // namespace workload
