// SPDX-License-Identifier: Apache-2.0
// Spans in the patterns that threads carry them in, and a log of each stay by this program's own clock: the times just
// before and just after the call that begins it, and around the one that ends it. Byte 0 of a span id is its depth + 1,
// and only span_work<depth> runs inside it.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "context_map.h"
#include "workload.h"

constexpr unsigned kMaxThreads = 64;
constexpr unsigned kMaxDepth = 8;

// By the clock and not by CPU time: a look at that is a system call.
template <unsigned kDepth>
[[WORKLOAD_KEEP]] void span_work(std::uint64_t duration_ns) {
  const std::uint64_t end_ns = workload::steady_ns() + duration_ns;
  do {
    workload::spin(200);
  } while (workload::steady_ns() < end_ns);
  asm volatile("" ::"i"(kDepth));
}

namespace {

using Work = void (*)(std::uint64_t);

template <std::size_t... kDepth>
constexpr std::array<Work, sizeof...(kDepth)> all_work(std::index_sequence<kDepth...> /*depths*/) {
  return {span_work<kDepth>...};
}
constexpr auto kWork = all_work(std::make_index_sequence<kMaxDepth>());

// How a stay ended.
enum Left : std::uint32_t { kDeleted = 0, kOverwritten = 1, kThreadEnded = 2 };

// A line of the log (tests/e2e/lifecycle.py reads it), CLOCK_REALTIME.
struct Stay {
  workload::SpanIds ids;
  std::uint32_t tid = 0;
  std::uint32_t left = kDeleted;
  std::uint32_t depth = 0;
  std::uint32_t pad = 0;
  std::uint64_t begin_after_ns = 0, begin_before_ns = 0;  // the begin lies before the one and after the other
  std::uint64_t end_after_ns = 0, end_before_ns = 0;
};
static_assert(sizeof(Stay) == 72);

struct Plan {
  std::string pattern;
  std::unique_ptr<workload::ContextMap> map;  // null: through the writer's programs
  unsigned threads = 1;
  unsigned depth = 3;
  std::uint64_t spans = 0;  // roots, of all threads together
  std::uint64_t work_ns = 0, gap_ns = 0;
  std::uint64_t seed = 0;
};

// One thread: the spans that it is in, and its part of the log.
class Lane {
 public:
  Lane(const Plan& plan, unsigned number)
      : plan_(plan),
        number_(number),
        key_(workload::ContextMap::own_key()),
        tid_(static_cast<std::uint32_t>(syscall(SYS_gettid))) {}

  [[nodiscard]] workload::SpanIds ids(unsigned depth, std::uint64_t serial) const {
    const std::uint64_t trace = static_cast<std::uint64_t>(number_) << 48U | serial;
    return workload::make_ids(static_cast<std::uint8_t>(depth + 1), static_cast<std::uint8_t>(number_), serial,
                              plan_.seed, trace);
  }

  void enter(const workload::SpanIds& ids) {
    Stay stay{.ids = ids, .tid = tid_, .depth = static_cast<std::uint32_t>(inside_.size())};
    stay.begin_after_ns = workload::wall_ns();
    if (plan_.map) {
      plan_.map->set(key_, ids);
    } else {
      workload::begin(ids);
    }
    stay.begin_before_ns = workload::wall_ns();
    if (!inside_.empty()) close(stay.begin_after_ns, stay.begin_before_ns, kOverwritten);
    inside_.push_back(stay);
  }

  // Back into the span around it, if any.
  void leave() {
    const std::uint64_t after_ns = workload::wall_ns();
    if (!plan_.map) {
      workload::end();
    } else if (inside_.size() > 1) {
      plan_.map->set(key_, inside_[inside_.size() - 2].ids);
    } else {
      plan_.map->clear(key_);
    }
    const std::uint64_t before_ns = workload::wall_ns();
    close(after_ns, before_ns, kDeleted);
    inside_.pop_back();
    if (inside_.empty()) return;
    inside_.back().begin_after_ns = after_ns;
    inside_.back().begin_before_ns = before_ns;
  }

  // The thread ends inside of its spans.
  void abandon() {
    close(workload::wall_ns(), 0, kThreadEnded);
    inside_.clear();
  }
  // What only who joined the thread knows. Joining may come before the end: that is when its number goes.
  void joined() {
    const std::string folder = "/proc/self/task/" + std::to_string(tid_);
    while (access(folder.c_str(), F_OK) == 0) sched_yield();
    const std::uint64_t now_ns = workload::wall_ns();
    for (Stay& stay : log) {
      if (stay.end_before_ns == 0) stay.end_before_ns = now_ns;
    }
  }

  void work() const { kWork[inside_.size() - 1](plan_.work_ns); }
  void gap() const {
    if (plan_.gap_ns > 0) workload::sleep_ns(plan_.gap_ns);
  }

  std::vector<Stay> log;

 private:
  void close(std::uint64_t after_ns, std::uint64_t before_ns, Left left) {
    Stay stay = inside_.back();
    stay.end_after_ns = after_ns;
    stay.end_before_ns = before_ns;
    stay.left = left;
    log.push_back(stay);
  }

  const Plan& plan_;
  unsigned number_;
  std::uint64_t key_;
  std::uint32_t tid_;
  std::vector<Stay> inside_;  // outermost first
};

void run_plain(Lane& lane, const Plan& plan) {
  for (std::uint64_t serial = 0; serial < plan.spans / plan.threads; ++serial) {
    lane.enter(lane.ids(0, serial));
    lane.work();
    lane.leave();
    lane.gap();
  }
}

// Two, three … spans deep, and back out through each of them; in every other turn with a sibling of the innermost.
void run_nested(Lane& lane, const Plan& plan) {
  for (std::uint64_t serial = 0; serial < plan.spans / plan.threads; ++serial) {
    const unsigned depth = 2 + static_cast<unsigned>(serial % (plan.depth - 1));
    for (unsigned i = 0; i < depth; ++i) {
      lane.enter(lane.ids(i, serial));
      lane.work();
    }
    if ((serial & 1U) != 0) {
      lane.leave();
      workload::SpanIds sibling = lane.ids(depth - 1, serial);
      sibling.span_id[2] = 1;  // no serial number gets there
      lane.enter(sibling);
      lane.work();
    }
    for (unsigned i = 0; i < depth; ++i) {
      lane.leave();
      if (i + 1 < depth) lane.work();
    }
    lane.gap();
  }
}

// A goroutine that is parked for less than the linger, and then for more.
void run_parked(Lane& lane, const Plan& plan) {
  for (std::uint64_t serial = 0; serial < plan.spans / plan.threads; ++serial) {
    for (const std::uint64_t pause_ns : {20'000U, 300'000U, 0U}) {
      lane.enter(lane.ids(0, serial));
      lane.work();
      lane.leave();
      if (pause_ns == 0) continue;
      const std::uint64_t end_ns = workload::steady_ns() + pause_ns;
      while (workload::steady_ns() < end_ns) workload::spin(200);
    }
    lane.gap();
  }
}

// Spans that wait for a thread.
struct Mailbox {
  struct Span {
    workload::SpanIds ids;
    unsigned hops = 0;
  };
  std::mutex mutex;
  std::deque<Span> spans;
};

// Each span goes over as many threads as there are, and on as many stays.
void run_moves(Lane& lane, const Plan& plan, unsigned number, std::array<Mailbox, kMaxThreads>& boxes,
               std::atomic<std::uint64_t>& left) {
  std::uint64_t serial = 0;
  while (left > 0) {
    Mailbox::Span span;
    {
      const std::lock_guard lock(boxes[number].mutex);
      if (!boxes[number].spans.empty()) {
        span = boxes[number].spans.front();
        boxes[number].spans.pop_front();
      }
    }
    if (span.ids.span_id[0] == 0) {
      if (serial == plan.spans / plan.threads) {
        workload::sleep_ns(50'000);
        continue;
      }
      span.ids = lane.ids(0, serial++);
    }
    lane.enter(span.ids);
    lane.work();
    lane.leave();
    if (++span.hops == plan.threads) {
      --left;
      continue;
    }
    Mailbox& next = boxes[(number + 1) % plan.threads];
    const std::lock_guard lock(next.mutex);
    next.spans.push_back(span);
  }
}

// One span on all threads at once.
void run_fanout(Lane& lane, const Plan& plan, const Lane& first, std::barrier<>& together) {
  for (std::uint64_t serial = 0; serial < plan.spans; ++serial) {
    together.arrive_and_wait();
    lane.enter(first.ids(0, serial));
    lane.work();
    lane.leave();
  }
}

void write_log(const std::string& path, const std::vector<std::unique_ptr<Lane>>& lanes) {
  if (path.empty()) return;
  std::FILE* file = workload::open_or_die(path);
  for (const auto& lane : lanes) std::fwrite(lane->log.data(), sizeof(Stay), lane->log.size(), file);
  if (std::fclose(file) != 0) std::perror(path.c_str());
}

// Threads that end inside their spans, one after the other; their log is theirs.
void run_exits(const Plan& plan, std::vector<std::unique_ptr<Lane>>& lanes) {
  for (std::uint64_t serial = 0; serial < plan.spans; ++serial) {
    std::thread([&] {
      auto lane = std::make_unique<Lane>(plan, 0);
      lane->enter(lane->ids(0, serial));
      lane->work();
      lane->abandon();
      lanes.push_back(std::move(lane));
    }).join();
    lanes.back()->joined();
  }
}

void run_threads(const Plan& plan, std::vector<std::unique_ptr<Lane>>& lanes) {
  lanes.resize(plan.threads);
  std::array<Mailbox, kMaxThreads> boxes;
  std::atomic<std::uint64_t> left = plan.spans / plan.threads * plan.threads;
  std::barrier<> together(plan.threads);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < plan.threads; ++i) {
    threads.emplace_back([&, i] {
      lanes[i] = std::make_unique<Lane>(plan, i);
      Lane& lane = *lanes[i];
      lane.log.reserve(1U << 16U);
      together.arrive_and_wait();
      if (plan.pattern == "plain") run_plain(lane, plan);
      if (plan.pattern == "nested") run_nested(lane, plan);
      if (plan.pattern == "parked") run_parked(lane, plan);
      if (plan.pattern == "moves") run_moves(lane, plan, i, boxes, left);
      if (plan.pattern == "fanout") run_fanout(lane, plan, *lanes[0], together);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int count, char** words) {
  const workload::Options options(count, words);
  options.allow("--pattern", "--spans", "--threads", "--depth", "--work-us", "--gap-us", "--ctx-map", "--log", "--seed",
                "--after-ms");
  Plan plan;
  plan.pattern = options.text("--pattern", "plain");
  const std::string map = options.text("--ctx-map");  // given: publish by system calls on this map
  if (!map.empty()) plan.map = std::make_unique<workload::ContextMap>(map);
  plan.spans = options.count("--spans", 1000);
  plan.threads = std::clamp(options.count("--threads", 1), 1U, kMaxThreads);
  plan.depth = std::clamp(options.count("--depth", 3), 2U, kMaxDepth);
  plan.work_ns = static_cast<std::uint64_t>(options.number("--work-us", 200) * 1e3);
  plan.gap_ns = static_cast<std::uint64_t>(options.number("--gap-us", 0) * 1e3);
  plan.seed = options.count("--seed", 11);

  const std::uint64_t begin_ns = workload::steady_ns();
  std::vector<std::unique_ptr<Lane>> lanes;
  if (plan.pattern == "exits") {
    run_exits(plan, lanes);
  } else if (plan.pattern == "main") {
    plan.threads = 1;
    lanes.push_back(std::make_unique<Lane>(plan, 0));
    run_plain(*lanes[0], plan);
  } else {
    run_threads(plan, lanes);
  }
  const double seconds = static_cast<double>(workload::steady_ns() - begin_ns) * 1e-9;
  write_log(options.text("--log"), lanes);
  std::size_t stays = 0;
  for (const auto& lane : lanes) stays += lane->log.size();
  std::printf("stays %zu seconds %.3f\n", stays, seconds);
  // Threads that carry nothing, for who looks at what is left of them.
  workload::sleep_ns(static_cast<std::uint64_t>(options.number("--after-ms", 0) * 1e6));
  return 0;
}
