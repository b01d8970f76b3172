// SPDX-License-Identifier: Apache-2.0
// Loads the bodies that run many steps in a call, with a context map of their own, and collects what comes out.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "tests/bpf/loaded.hpp"
#include "tests/bpf/steps.h"
// After the structs that it holds.
#include "steps.skel.h"
#include "steps_no_fetch.skel.h"

namespace bodytest {

constexpr std::uint64_t kHoldNs = 1'000'000'000;  // bpf/leave.bpf.h
constexpr std::uint64_t kNoteSlackNs = 50'000;    // bpf/note.bpf.h

// Whose samples and stays: one thread of one program in one span, in one flush.
struct Whose {
  std::uint64_t thread = 0;
  std::uint64_t start_ns = 0;
  std::uint32_t exec_id = 0;
  std::uint64_t trace = 0;
  std::uint64_t span = 0;
  std::uint32_t epoch = 0;
  auto operator<=>(const Whose&) const = default;
};

struct Stay {
  std::uint64_t first_ns = 0;
  std::uint64_t last_ns = 0;
  std::uint64_t on_thread_ns = 0;
  std::uint32_t flags = 0;  // enum sf_stay
  auto operator<=>(const Stay&) const = default;
};

// What messages tell, however it is divided among them.
struct Told {
  std::map<Whose, std::map<std::uint64_t, std::uint64_t>> samples;  // by stack
  std::map<Whose, std::vector<Stay>> stays;                         // sorted by compare()
  void sort() {
    for (auto& [whose, list] : stays) std::ranges::sort(list);
  }
};

class Steps {
 public:
  explicit Steps(const Sizes& sizes)
      : skeleton_(open_bodies<steps_bpf, steps_no_fetch_bpf>()), sizes_(sizes), context_(make_context_map()) {
    sizes_.context_map = context_;
    give_sizes(*skeleton_, sizes_);
    REQUIRE(steps_bpf::load(skeleton_.get()) == 0);
    ring_.reset(ring_buffer__new(bpf_map__fd(skeleton_->maps.ring), on_message, this, nullptr));
    REQUIRE(ring_);
    const std::uint32_t slot = 0;
    REQUIRE(bpf_map_update_elem(bpf_map__fd(skeleton_->maps.context), &slot, &context_, BPF_ANY) == 0);
    void* shared =
        mmap(nullptr, kStepsBytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(skeleton_->maps.steps), 0);
    REQUIRE(shared != MAP_FAILED);
    steps_ = static_cast<sf_step*>(shared);
  }
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;
  ~Steps() {
    munmap(steps_, kStepsBytes);
    close(context_);
  }

  // Runs them, and leaves the results in them. `number`: one for each thread of the test.
  void run(std::span<sf_step> steps, std::size_t number = 0) {
    REQUIRE(steps.size() <= STEPS_AT_ONCE);
    const std::size_t first = number * STEPS_AT_ONCE;
    std::ranges::copy(steps, steps_ + first);
    std::uint64_t args[2] = {steps.size(), first};
    LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = args, .ctx_size_in = sizeof(args));
    REQUIRE(bpf_prog_test_run_opts(bpf_program__fd(skeleton_->progs.run_steps), &opts) == 0);
    std::ranges::copy(std::span(steps_ + first, steps.size()), steps.begin());
  }

  void drain() { REQUIRE(ring_buffer__consume(ring_.get()) >= 0); }

  // Over all banks so far.
  [[nodiscard]] sf_counters counters() const {
    sf_counters sum = sum_counters(skeleton_->maps.counters, 0);
    const sf_counters odd = sum_counters(skeleton_->maps.counters, 1);
    for (int i = 0; i < SF_COUNT_COUNT; ++i) sum.count[i] += odd.count[i];
    for (int i = 0; i < SF_DROP_COUNT; ++i) sum.drop[i] += odd.drop[i];
    return sum;
  }

  [[nodiscard]] std::uint32_t records_in_use() const { return count_owned(skeleton_->maps.owners); }
  [[nodiscard]] std::uint32_t tables_in_use() const {
    return count_taken(skeleton_->maps.tables, skeleton_->maps.locks);
  }
  [[nodiscard]] std::uint32_t places() const { return sizes_.buckets * SF_BUCKET_WAYS; }
  [[nodiscard]] steps_bpf& skeleton() { return *skeleton_; }

  Told told;  // since it was last taken

 private:
  static constexpr std::size_t kStepsBytes = sizeof(sf_step) * STEPS_AT_ONCE * STEPS_RUNNERS;

  struct Deleter {
    void operator()(steps_bpf* skeleton) const { steps_bpf::destroy(skeleton); }
  };

  static int on_message(void* self, void* data, std::size_t size) {
    const auto& message = *static_cast<const sf_fold_msg*>(data);
    const sf_fold_head& head = message.fold;
    REQUIRE(head.head.type == SF_MSG_FOLD);
    REQUIRE(size == sizeof(head) + head.head.count * sizeof(sf_slot));
    const Whose whose{.thread = head.pid_tgid,
                      .start_ns = head.process_start_ns,
                      .exec_id = head.exec_id,
                      .trace = head.span.trace_id[0],
                      .span = head.span.span_id,
                      .epoch = head.head.epoch};
    Told& told = static_cast<Steps*>(self)->told;
    for (std::uint32_t i = 0; i < head.head.count; ++i) {
      told.samples[whose][message.slots[i].stack_id] += message.slots[i].count;
    }
    if (head.on_thread_ns != 0) {
      told.stays[whose].push_back(
          {.first_ns = head.first_ns, .last_ns = head.last_ns, .on_thread_ns = head.on_thread_ns, .flags = head.stay});
    }
    return 0;
  }

  std::unique_ptr<steps_bpf, Deleter> skeleton_;
  Ring ring_;
  Sizes sizes_;
  int context_ = -1;
  sf_step* steps_ = nullptr;
};

}  // namespace bodytest
