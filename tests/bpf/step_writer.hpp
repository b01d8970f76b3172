// SPDX-License-Identifier: Apache-2.0
// Makes up the lives of some threads, step by step; knows nothing of records.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "tests/bpf/steps.hpp"

namespace bodytest {

struct Plan {
  std::uint64_t seed = 1;
  std::uint64_t steps = 0;
  std::uint64_t threads = 6;
  std::uint64_t spans = 6;  // of a trace
  std::uint64_t stacks = 8;
  unsigned missed = 10;     // hooks, of a hundred
  bool late_maps = true;    // changes that samples find half done
  bool alone = false;       // nobody else changes a thread's entry, and its program stays the same
  std::size_t batch = 200;  // steps between comparisons; with 1, a difference is found at its cause
  Sizes sizes;
};

// One thread of the program that is traced.
struct Thread {
  std::uint64_t id = 0;
  sf_process process{};
  std::uint32_t switches = 0;
  sf_span entry{};               // what the map shows
  std::vector<sf_span> parents;  // what its entry was set over
  bool pending = false;          // the hook of a change has run, and the map does not show it yet
  sf_span to_come{};
  std::uint64_t marked_ns = 0;  // the last event whose distance matters
};

class StepWriter {
 public:
  explicit StepWriter(const Plan& plan) : plan_(plan), random_(plan.seed) {
    for (std::uint64_t number = 1; number <= plan.threads; ++number) {
      Thread& thread = threads_.emplace_back();
      thread.id = number << 32 | number;
      thread.process = {.start_ns = number, .tgid = static_cast<std::uint32_t>(number), .exec_id = 1};
    }
  }

  // Appends the steps of one thing that happens.
  void happen(std::vector<sf_step>& steps) {
    Thread& thread = threads_[random_() % threads_.size()];
    pass_time(thread);
    if (flush_in_ > 0 && --flush_in_ == 0) sweep(steps);
    const std::uint64_t what = random_() % 1000;
    if (thread.pending && what % 3 == 0) {
      finish(thread, steps);
    } else if (what < 400) {
      sample(thread, steps);
    } else if (what < 760) {
      change(thread, steps);
    } else if (what < 860) {
      if (!plan_.alone) change_from_outside(thread, steps);
    } else if (what < 930) {
      ++thread.switches;
    } else if (what < 934) {
      if (!plan_.alone) ++thread.process.exec_id;
    } else if (what < 950) {
      exit(thread, steps);
    } else if (what < 985) {
      sweep(steps);
    } else if (flush_in_ == 0) {
      ++epoch_;
      flush_in_ = 1 + random_() % 20;
    }
  }

  // All threads end, and all is told.
  void finish_all(std::vector<sf_step>& steps) {
    for (Thread& thread : threads_) exit(thread, steps);
    ++epoch_;
    sweep(steps);
  }

 private:
  bool chance(unsigned of_hundred) { return random_() % 100 < of_hundred; }

  // Often to where something just is, or just is no more, close.
  void pass_time(const Thread& thread) {
    now_ns_ += 2 + random_() % 50;
    switch (random_() % 12) {
      case 0: now_ns_ += random_() % kNoteSlackNs; break;
      case 1: now_ns_ += random_() % (3 * SF_LINGER_NS); break;
      case 2: jump_to(thread.marked_ns + kHoldNs + random_() % 3 - 1); break;
      case 3: jump_to(thread.marked_ns + SF_LINGER_NS + random_() % 3 - 1); break;
      case 4: jump_to(thread.marked_ns + kNoteSlackNs + random_() % 3 - 1); break;
      default: break;
    }
  }
  void jump_to(std::uint64_t ns) { now_ns_ = std::max(now_ns_, ns); }

  sf_step step_of(const Thread& thread, std::uint32_t op) const {
    return {.pid_tgid = thread.id,
            .now_ns = now_ns_,
            .process = thread.process,
            .op = op,
            .epoch = epoch_,
            .switches = thread.switches};
  }

  // Between a hook and its change the thread is in the kernel, but for changes that fail.
  void sample(const Thread& thread, std::vector<sf_step>& steps) {
    steps.push_back(step_of(thread, STEP_SAMPLE));
    steps.back().in_kernel = chance(thread.pending ? 95 : 40) ? 1 : 0;
    steps.back().stack_id = sf_mix(3, random_() % plan_.stacks);
  }

  void sweep(std::vector<sf_step>& steps) {
    now_ns_ += 2;
    steps.push_back(step_of({}, STEP_SWEEP));
    steps.back().places = plan_.sizes.buckets * SF_BUCKET_WAYS;
    // What a flush cuts and a hook ends in the same instant lasts a nanosecond too long.
    if (plan_.alone) now_ns_ += 2;
  }

  sf_span some_span(std::uint64_t trace) {
    return {.trace_id = {trace, 1}, .span_id = trace * 100 + 1 + random_() % plan_.spans};
  }

  // What a thread may set next: a nested span, its parent again, the same, another trace, none.
  sf_span next_entry(Thread& thread) {
    const bool carries = thread.entry.span_id != 0;
    const std::uint64_t what = random_() % 100;
    if (carries && what < 40) {
      thread.parents.push_back(thread.entry);
      return some_span(thread.entry.trace_id[0]);
    }
    if (!thread.parents.empty() && what < 65) {
      const sf_span parent = thread.parents.back();
      thread.parents.pop_back();
      return parent;
    }
    if (carries && what < 69) return thread.entry;
    thread.parents.clear();
    if (carries && what < 84) return {};
    return some_span(1 + random_() % 3);
  }

  void change(Thread& thread, std::vector<sf_step>& steps) {
    if (thread.pending) finish(thread, steps);
    const sf_span next = next_entry(thread);
    if (!chance(plan_.missed)) {
      steps.push_back(step_of(thread, STEP_HOOK));
      steps.back().span = next;
      thread.marked_ns = now_ns_;
    }
    thread.to_come = next;
    thread.pending = true;
    if (!plan_.late_maps || !chance(10)) finish(thread, steps);
  }

  // The change that a hook told of takes effect, or it fails.
  void finish(Thread& thread, std::vector<sf_step>& steps) {
    thread.pending = false;
    if (plan_.late_maps && chance(2)) return;
    show(thread, thread.to_come, steps);
  }

  void show(Thread& thread, const sf_span& span, std::vector<sf_step>& steps) {
    thread.entry = span;
    steps.push_back(step_of(thread, STEP_MAP));
    steps.back().span = span;
  }

  void change_from_outside(Thread& thread, std::vector<sf_step>& steps) {
    const bool evicted = chance(20);
    sf_span next = evicted || chance(40) ? sf_span{} : some_span(1 + random_() % 3);
    if (next.span_id != 0 && thread.entry.span_id != 0 && chance(50)) next = some_span(thread.entry.trace_id[0]);
    if (!chance(plan_.missed)) {
      steps.push_back(step_of(thread, STEP_NOTE));
      steps.back().span = next;
      steps.back().evicted = evicted ? 1 : 0;
      thread.marked_ns = now_ns_;
    }
    // Whoever looks in between sees what was before.
    if (plan_.late_maps && chance(20)) {
      now_ns_ += 2 + random_() % 1000;
      sample(thread, steps);
    }
    now_ns_ += 2;
    show(thread, next, steps);
  }

  // Its id is another thread's soon, and its entry may stay.
  void exit(Thread& thread, std::vector<sf_step>& steps) {
    now_ns_ += 2;
    if (thread.pending) finish(thread, steps);
    if (plan_.alone || chance(50)) {
      if (!chance(plan_.missed)) steps.push_back(step_of(thread, STEP_HOOK));
      show(thread, {}, steps);
      now_ns_ += 2;
    }
    steps.push_back(step_of(thread, STEP_EXIT));
    thread.parents.clear();
    thread.process.start_ns += 100;
    thread.process.exec_id = 1;
    thread.switches = 0;
  }

  Plan plan_;
  std::mt19937_64 random_;
  std::deque<Thread> threads_;
  std::uint64_t now_ns_ = 1'000'000;
  std::uint32_t epoch_ = 0;
  std::uint64_t flush_in_ = 0;  // things that still happen until the sweep of a flush
};

}  // namespace bodytest
