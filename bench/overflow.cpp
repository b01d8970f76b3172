// SPDX-License-Identifier: Apache-2.0
// Prints what a fold and the end of a busy span cost with a table of our own and with a BPF hash map from a pool.
// Interleaved rounds, medians. Needs root.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "bpf/core.h"
#include "overflow.skel.h"

namespace {

constexpr std::uint32_t kFolds = 128;
constexpr std::uint32_t kPool = 64;
constexpr int kRounds = 21;

double now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

struct Bench {
  overflow_bpf* skeleton = overflow_bpf::open_and_load();
  ring_buffer* ring = nullptr;
  std::uint64_t drained = 0;

  static int on_message(void* self, void* data, std::size_t /*size*/) {
    const auto* msg = static_cast<const sf_fold_msg*>(data);
    for (unsigned i = 0; i < msg->fold.head.count; ++i) static_cast<Bench*>(self)->drained += msg->slots[i].count;
    return 0;
  }

  // Nanoseconds in the kernel for one run over each slot of the pool.
  double run(const bpf_program* program) const {
    skeleton->bss->spent_ns = 0;
    for (std::uint64_t slot = 0; slot < kPool; ++slot) {
      LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &slot, .ctx_size_in = sizeof(slot));
      bpf_prog_test_run_opts(bpf_program__fd(program), &opts);
    }
    return static_cast<double>(skeleton->bss->spent_ns);
  }

  double fill_pool() const {
    const double begin = now_ns();
    for (std::uint32_t slot = 0; slot < kPool; ++slot) {
      const int inner = bpf_map_create(BPF_MAP_TYPE_HASH, "span", 8, 8, SF_TABLE_SLOTS, nullptr);
      bpf_map_update_elem(bpf_map__fd(skeleton->maps.hash_pool), &slot, &inner, BPF_ANY);
      inner_.push_back(inner);
    }
    return now_ns() - begin;
  }

  // The maps have been swapped out: wait until no program writes them, then read and empty them.
  double drain_pool() {
    const double begin = now_ns();
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
    std::vector<std::uint64_t> keys(SF_TABLE_SLOTS);
    std::vector<std::uint64_t> values(SF_TABLE_SLOTS);
    for (const int map : inner_) {
      std::uint32_t count = SF_TABLE_SLOTS;
      std::uint32_t next = 0;
      bpf_map_lookup_and_delete_batch(map, nullptr, &next, keys.data(), values.data(), &count, nullptr);
      for (std::uint32_t i = 0; i < count; ++i) drained += values[i];
    }
    return now_ns() - begin;
  }

  mutable std::vector<int> inner_;
};

}  // namespace

int main() {
  Bench bench;
  if (bench.skeleton == nullptr) {
    fmt::print(stderr, "overflow: the programs do not load (run as root)\n");
    return 1;
  }
  bench.ring = ring_buffer__new(bpf_map__fd(bench.skeleton->maps.out), Bench::on_message, &bench, nullptr);
  const double filled = bench.fill_pool();
  fmt::print("{:>9} {:>12} {:>12} {:>16} {:>16}\n", "distinct", "table ns", "hash ns", "table end ns", "hash end ns");
  for (const std::uint32_t distinct : {9U, 16U, 32U, 64U, 128U}) {
    bench.skeleton->data->distinct = distinct;
    std::vector<double> own;
    std::vector<double> hash;
    std::vector<double> own_end;
    std::vector<double> hash_end;
    for (int round = 0; round < kRounds; ++round) {
      own.push_back(bench.run(bench.skeleton->progs.bench_own) / kPool / kFolds);
      hash.push_back(bench.run(bench.skeleton->progs.bench_hash) / kPool / kFolds);
      const double emitted = bench.run(bench.skeleton->progs.bench_emit);
      const double begin = now_ns();
      ring_buffer__consume(bench.ring);
      own_end.push_back((emitted + now_ns() - begin) / kPool);
      hash_end.push_back(bench.drain_pool() / kPool);
    }
    fmt::print("{:>9} {:>12.1f} {:>12.1f} {:>16.0f} {:>16.0f}\n", distinct, median(own), median(hash), median(own_end),
               median(hash_end));
  }
  fmt::print("a table takes {} bytes; filling the pool of {} hash maps took {:.0f} ms\n", sizeof(sf_table), kPool,
             filled / 1e6);
  ring_buffer__free(bench.ring);
  overflow_bpf::destroy(bench.skeleton);
  return 0;
}
