// SPDX-License-Identifier: Apache-2.0
// Loads the wrapped bodies with sizes of the test's choice, calls them, and collects what comes out of the ring.
#pragma once

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "bpf/core.h"
#include "tests/bpf/bodies.h"
// After the structs that it holds.
#include "bodies.skel.h"

namespace bodytest {

struct Sizes {
  std::uint32_t buckets = 4;
  std::uint32_t tables = 2;
  std::uint32_t ring_bytes = 65536;
  std::uint32_t sent_sets = 16;
};

// (thread, span id, stack id)
using Key = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;
using Counts = std::map<Key, std::uint64_t>;

struct Deleter {
  void operator()(bodies_bpf* skeleton) const { bodies_bpf::destroy(skeleton); }
  void operator()(ring_buffer* ring) const { ring_buffer__free(ring); }
};

class Bodies {
 public:
  explicit Bodies(const Sizes& sizes) : skeleton_(bodies_bpf::open()), sizes_(sizes) {
    REQUIRE(skeleton_);
    auto& maps = skeleton_->maps;
    bpf_map__set_max_entries(maps.owners, sizes.buckets);
    bpf_map__set_max_entries(maps.records, sizes.buckets * SF_BUCKET_WAYS);
    bpf_map__set_max_entries(maps.tables, sizes.tables > 0 ? sizes.tables : 1);
    bpf_map__set_max_entries(maps.ring, sizes.ring_bytes);
    bpf_map__set_max_entries(maps.sent, sizes.sent_sets);
    bpf_map__set_max_entries(maps.processes, 64);
    skeleton_->rodata->knobs.seed = 77;
    skeleton_->rodata->knobs.bucket_mask = sizes.buckets - 1;
    skeleton_->rodata->knobs.sent_mask = sizes.sent_sets - 1;
    skeleton_->rodata->knobs.table_count = sizes.tables;
    skeleton_->rodata->knobs.wakeup_bytes = ~0U;
    REQUIRE(bodies_bpf::load(skeleton_.get()) == 0);
    ring_.reset(ring_buffer__new(bpf_map__fd(maps.ring), on_message, this, nullptr));
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
    const std::uint32_t bank = epoch & 1;
    std::array<sf_counters, 256> values{};
    REQUIRE(bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.counters), &bank, values.data()) == 0);
    sf_counters sum{};
    for (int cpu = 0; cpu < libbpf_num_possible_cpus(); ++cpu) {
      for (int i = 0; i < SF_COUNT_COUNT; ++i) sum.count[i] += values[static_cast<std::size_t>(cpu)].count[i];
      for (int i = 0; i < SF_DROP_COUNT; ++i) sum.drop[i] += values[static_cast<std::size_t>(cpu)].drop[i];
    }
    return sum;
  }

  [[nodiscard]] std::uint64_t free_ring_bytes() {
    sf_body_input input = {};
    call(progs().body_waiting, input);
    return sizes_.ring_bytes - static_cast<std::uint64_t>(input.result);
  }

  // Records that somebody owns.
  [[nodiscard]] std::uint32_t records_in_use() const {
    std::uint32_t used = 0;
    for (std::uint32_t bucket = 0; bucket < sizes_.buckets; ++bucket) {
      sf_owners owners{};
      REQUIRE(bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.owners), &bucket, &owners) == 0);
      for (const __u64 owner : owners.owner) used += owner != 0 ? 1 : 0;
    }
    return used;
  }

  [[nodiscard]] std::uint32_t tables_in_use() const {
    std::uint32_t used = 0;
    for (std::uint32_t number = 0; number < sizes_.tables; ++number) {
      auto table = std::make_unique<sf_table>();
      REQUIRE(bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.tables), &number, table.get()) == 0);
      used += table->taken != 0 ? 1 : 0;
    }
    return used;
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
  std::unique_ptr<ring_buffer, Deleter> ring_;
  Sizes sizes_;
};

}  // namespace bodytest
