// SPDX-License-Identifier: Apache-2.0
// Loads the wrapped bodies with sizes of the test's choice, calls them, and collects what comes out of the ring.
#pragma once

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "tests/bpf/bodies.h"
#include "tests/bpf/loaded.hpp"
// After the structs that it holds.
#include "bodies.skel.h"
#include "bodies_no_fetch.skel.h"

namespace bodytest {

// (thread, span id, stack id)
using Key = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;
using Counts = std::map<Key, std::uint64_t>;

struct Deleter {
  void operator()(bodies_bpf* skeleton) const { bodies_bpf::destroy(skeleton); }
};

class Bodies {
 public:
  explicit Bodies(const Sizes& sizes) : skeleton_(open_bodies<bodies_bpf, bodies_no_fetch_bpf>()), sizes_(sizes) {
    give_sizes(*skeleton_, sizes);
    REQUIRE(bodies_bpf::load(skeleton_.get()) == 0);
    ring_.reset(ring_buffer__new(bpf_map__fd(maps().ring), on_message, this, nullptr));
    REQUIRE(ring_);
  }

  // Runs `program` with `input`, which holds the results afterwards. `number`: one a thread.
  void call(bpf_program* program, sf_body_input& input, std::uint32_t number = 0) {
    const int inputs = bpf_map__fd(skeleton_->maps.inputs);
    REQUIRE(bpf_map_update_elem(inputs, &number, &input, BPF_ANY) == 0);
    std::uint64_t args[1] = {number};
    LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = args, .ctx_size_in = sizeof(args));
    REQUIRE(bpf_prog_test_run_opts(bpf_program__fd(program), &opts) == 0);
    REQUIRE(bpf_map_lookup_elem(inputs, &number, &input) == 0);
  }

  // From now on somebody is at the record.
  void take_record(std::uint32_t place) {
    sf_record record{};
    REQUIRE(bpf_map_lookup_elem(bpf_map__fd(maps().records), &place, &record) == 0);
    record.busy = 1;
    const std::uint8_t one = 1;
    REQUIRE((fetch_atomics() ? bpf_map_update_elem(bpf_map__fd(maps().records), &place, &record, BPF_ANY)
                             : bpf_map_update_elem(bpf_map__fd(maps().locks), &place, &one, BPF_NOEXIST)) == 0);
  }

  void drain() { REQUIRE(ring_buffer__consume(ring_.get()) >= 0); }

  // Sweeps and drains until nothing of an earlier epoch is left.
  void sweep(std::uint32_t epoch, std::uint32_t number = 0) {
    for (bool left = true; left;) {
      left = false;
      drain();
      for (std::uint32_t place = 0; place < sizes_.buckets * SF_BUCKET_WAYS; ++place) {
        sf_body_input input = {};
        input.place = place;
        input.epoch = epoch;
        call(progs().body_sweep, input, number);
        left = left || input.result == 0;
      }
      drain();
    }
  }

  [[nodiscard]] sf_counters counters(std::uint32_t epoch) const {
    return sum_counters(skeleton_->maps.counters, epoch & 1);
  }

  [[nodiscard]] std::uint64_t free_ring_bytes() {
    sf_body_input input = {};
    call(progs().body_waiting, input);
    return sizes_.ring_bytes - static_cast<std::uint64_t>(input.result);
  }

  [[nodiscard]] std::uint32_t records_in_use() const { return count_owned(skeleton_->maps.owners); }
  [[nodiscard]] std::uint32_t tables_in_use() const {
    return count_taken(skeleton_->maps.tables, skeleton_->maps.locks);
  }

  decltype(bodies_bpf::progs)& progs() { return skeleton_->progs; }
  decltype(bodies_bpf::maps)& maps() { return skeleton_->maps; }
  bodies_bpf& skeleton() { return *skeleton_; }

  Counts counts;                                    // out of all folds so far
  std::map<std::uint32_t, std::uint64_t> by_epoch;  // samples
  std::map<std::uint64_t, int> stacks;              // how often each was sent
  std::uint64_t folds = 0;                          // messages
  std::uint64_t bytes = 0;

 private:
  static int on_message(void* self, void* data, std::size_t size) {
    auto& out = *static_cast<Bodies*>(self);
    out.bytes += size;
    const auto* head = static_cast<const sf_msg*>(data);
    if (head->type == SF_MSG_STACK) {
      ++out.stacks[static_cast<const sf_stack_msg*>(data)->stack_id];
      return 0;
    }
    const auto* fold = static_cast<const sf_fold_msg*>(data);
    ++out.folds;
    for (std::uint32_t i = 0; i < head->count; ++i) {
      out.counts[{fold->fold.pid_tgid, fold->fold.span.span_id, fold->slots[i].stack_id}] += fold->slots[i].count;
      out.by_epoch[head->epoch] += fold->slots[i].count;
    }
    return 0;
  }

  std::unique_ptr<bodies_bpf, Deleter> skeleton_;
  Ring ring_;
  Sizes sizes_;
};

}  // namespace bodytest
