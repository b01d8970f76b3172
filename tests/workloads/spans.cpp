// SPDX-License-Identifier: Apache-2.0
// Spans in the patterns that threads carry them in, and a log of each stay. Its kind is how deep a span lies.
#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lane.h"
#include "workload.h"

constexpr unsigned kMaxThreads = 64;

namespace {

using workload::Lane;
using Lanes = std::vector<std::unique_ptr<Lane>>;

struct Plan : workload::LanePlan {
  std::string pattern;
  unsigned threads = 1;
  unsigned depth = 3;
  std::uint64_t spans = 0;  // roots, of all threads together
  std::uint64_t gap_ns = 0;

  void gap() const {
    if (gap_ns > 0) workload::sleep_ns(gap_ns);
  }
};

void run_plain(Lane& lane, const Plan& plan) {
  for (std::uint64_t serial = 0; serial < plan.spans / plan.threads; ++serial) {
    lane.enter(lane.ids(0, serial));
    lane.work();
    lane.leave();
    plan.gap();
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
    plan.gap();
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
    plan.gap();
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

// Threads that end inside their spans, one after the other; their log is theirs.
void run_exits(const Plan& plan, Lanes& lanes) {
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

void run_threads(const Plan& plan, Lanes& lanes) {
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
  plan.depth = std::clamp(options.count("--depth", 3), 2U, kMaxKinds);
  plan.work_ns = static_cast<std::uint64_t>(options.number("--work-us", 200) * 1e3);
  plan.gap_ns = static_cast<std::uint64_t>(options.number("--gap-us", 0) * 1e3);
  plan.seed = options.count("--seed", 11);

  const std::uint64_t begin_ns = workload::steady_ns();
  Lanes lanes;
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
  std::vector<workload::Stay> log;
  for (const auto& lane : lanes) log.insert(log.end(), lane->log.begin(), lane->log.end());
  workload::write_log(options.text("--log"), log);
  std::printf("stays %zu seconds %.3f\n", log.size(), seconds);
  // Threads that carry nothing, for who looks at what is left of them.
  workload::sleep_ns(static_cast<std::uint64_t>(options.number("--after-ms", 0) * 1e6));
  return 0;
}
