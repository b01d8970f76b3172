// SPDX-License-Identifier: Apache-2.0
// What steps come to where hooks miss nothing, however the records fared: samples, time on threads, begins and ends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "tests/bpf/steps.hpp"

namespace bodytest {

class Sums {
 public:
  void apply(const sf_step& step) {
    const std::uint64_t thread = step.pid_tgid;
    if (step.op == STEP_HOOK || step.op == STEP_EXIT) {
      if (entry_[thread].span_id != 0 && entry_[thread].span_id == step.span.span_id) return;
      if (step.busy != 0) disturbed.insert(whose(step, 0));
      leave(step);
      entry_[thread] = step.span;
      if (step.span.span_id != 0) come(step);
      if (step.busy != 0) disturbed.insert(whose(step, 0));
    } else if (step.op == STEP_MAP) {
      // A sweep in between sees a hook that is too long ago to be believed.
      if (step.span.span_id != 0 && step.now_ns - since_[thread] >= kHoldNs) disturbed.insert(whose(step, 0));
    } else if (step.op == STEP_SAMPLE && entry_[thread].span_id != 0) {
      if (step.result == 1) {
        ++samples[whose(step, step.epoch)][step.stack_id];
      } else {
        ++lost;
      }
    }
  }

  std::map<Whose, std::map<std::uint64_t, std::uint64_t>> samples;
  std::map<Whose, std::uint64_t> on_thread_ns;  // over all epochs
  std::map<Whose, std::set<std::uint64_t>> begins;
  std::map<Whose, std::set<std::uint64_t>> ends;
  std::map<Whose, std::set<std::uint64_t>> returns;  // ends after which the thread came back
  std::set<Whose> disturbed;                         // spans in whose events a record was in use
  std::uint64_t lost = 0;

 private:
  Whose whose(const sf_step& step, std::uint32_t epoch) {
    return {.thread = step.pid_tgid,
            .start_ns = step.process.start_ns,
            .exec_id = step.process.exec_id,
            .trace = entry_[step.pid_tgid].trace_id[0],
            .span = entry_[step.pid_tgid].span_id,
            .epoch = epoch};
  }
  void leave(const sf_step& step) {
    const sf_span& left = entry_[step.pid_tgid];
    if (left.span_id == 0) return;
    on_thread_ns[whose(step, 0)] += step.now_ns - since_[step.pid_tgid];
    ends[whose(step, 0)].insert(step.now_ns);
    if (left.trace_id[0] == step.span.trace_id[0]) {
      covered_[step.pid_tgid].push_back({left.span_id, step.now_ns});
    } else {
      covered_[step.pid_tgid].clear();
    }
  }
  void come(const sf_step& step) {
    since_[step.pid_tgid] = step.now_ns;
    begins[whose(step, 0)].insert(step.now_ns);
    auto& covered = covered_[step.pid_tgid];
    const auto back = std::ranges::find(covered, step.span.span_id, &Covered::span);
    if (back == covered.end()) return;
    returns[whose(step, 0)].insert(back->left_ns);
    covered.erase(back, covered.end());
  }

  struct Covered {
    std::uint64_t span = 0;
    std::uint64_t left_ns = 0;
  };
  std::map<std::uint64_t, std::vector<Covered>> covered_;  // by the thread's spans of the same trace; in order
  std::map<std::uint64_t, sf_span> entry_;
  std::map<std::uint64_t, std::uint64_t> since_;
};

}  // namespace bodytest
