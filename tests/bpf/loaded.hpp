// SPDX-License-Identifier: Apache-2.0
// What all loaded sets of bodies have in common: sizes of the test's choice, and a look at what is in use.
#pragma once

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "bpf/core.h"
#include "bpf/features.h"

namespace bodytest {

struct Sizes {
  std::uint32_t buckets = 4;
  std::uint32_t tables = 2;
  std::uint32_t ring_bytes = 65536;
  std::uint32_t sent_sets = 16;
  bool span_times = false;
  bool background_stacks = false;
  std::uint32_t filter = 0;   // bits of enum sf_filter
  std::uint32_t cgroups = 0;  // slots
  int context_map = -1;       // what the slot of `context` may hold
};

inline int make_context_map() {
  const int map = bpf_map_create(BPF_MAP_TYPE_LRU_HASH, "ctx", 8, sizeof(sf_span), 16384, nullptr);
  REQUIRE(map >= 0);
  return map;
}

struct RingDeleter {
  void operator()(ring_buffer* ring) const { ring_buffer__free(ring); }
};
using Ring = std::unique_ptr<ring_buffer, RingDeleter>;

// As the loader asks; and SPANFOLD_TEST_NO_FETCH has newer kernels run what older ones do.
inline bool fetch_atomics() {
  static const bool kHas = std::getenv("SPANFOLD_TEST_NO_FETCH") == nullptr && spanfold::bpf::has_fetch_atomics();
  return kHas;
}

// The set of bodies that fits the kernel. Both come from the same sources, so one skeleton serves the two of them.
template <typename Skeleton, typename NoFetch>
Skeleton* open_bodies() {
  static_assert(sizeof(*Skeleton::bss) == sizeof(*NoFetch::bss));
  static_assert(sizeof(*Skeleton::rodata) == sizeof(*NoFetch::rodata));
  Skeleton* bodies = Skeleton::open();
  REQUIRE(bodies != nullptr);
  if (fetch_atomics()) return bodies;
  bpf_object_skeleton& parts = *bodies->skeleton;
  bpf_object__close(*parts.obj);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): libbpf only reads it
  parts.data = const_cast<void*>(NoFetch::elf_bytes(&parts.data_sz));
  REQUIRE(bpf_object__open_skeleton(&parts, nullptr) == 0);
  return bodies;
}

// Before it is loaded.
template <typename Skeleton>
void give_sizes(Skeleton& skeleton, const Sizes& sizes) {
  bpf_map__set_max_entries(skeleton.maps.owners, sizes.buckets);
  bpf_map__set_max_entries(skeleton.maps.records, sizes.buckets * SF_BUCKET_WAYS);
  bpf_map__set_max_entries(skeleton.maps.tables, sizes.tables > 0 ? sizes.tables : 1);
  bpf_map__set_max_entries(skeleton.maps.ring, sizes.ring_bytes);
  bpf_map__set_max_entries(skeleton.maps.sent, sizes.sent_sets);
  bpf_map__set_max_entries(skeleton.maps.processes, 64);
  // Each record and each table may be taken.
  if (!fetch_atomics()) {
    bpf_map__set_max_entries(skeleton.maps.locks, sizes.buckets * SF_BUCKET_WAYS + sizes.tables);
  }
  // Older kernels take a map into the slot only if it is just as the one at load, down to its BTF.
  if (sizes.context_map >= 0) REQUIRE(bpf_map__set_inner_map_fd(skeleton.maps.context, sizes.context_map) == 0);
  skeleton.rodata->knobs.seed = 77;
  skeleton.rodata->knobs.bucket_mask = sizes.buckets - 1;
  skeleton.rodata->knobs.sent_mask = sizes.sent_sets - 1;
  skeleton.rodata->knobs.table_count = sizes.tables;
  skeleton.rodata->knobs.wakeup_bytes = ~0U;
  skeleton.rodata->knobs.span_times = sizes.span_times ? 1 : 0;
  skeleton.rodata->knobs.filter = sizes.filter;
  skeleton.rodata->knobs.cgroup_count = sizes.cgroups;
  bpf_map__set_max_entries(skeleton.maps.targets, 8);
  bpf_map__set_max_entries(skeleton.maps.cgroups, sizes.cgroups > 0 ? sizes.cgroups : 1);
  skeleton.rodata->knobs.background_stacks = sizes.background_stacks ? 1 : 0;
}

// One bank of the map `counters`, over all CPUs.
inline sf_counters sum_counters(const bpf_map* counters, std::uint32_t bank) {
  std::array<sf_counters, 256> values{};
  REQUIRE(bpf_map_lookup_elem(bpf_map__fd(counters), &bank, values.data()) == 0);
  sf_counters sum{};
  for (int cpu = 0; cpu < libbpf_num_possible_cpus(); ++cpu) {
    for (int i = 0; i < SF_COUNT_COUNT; ++i) sum.count[i] += values[static_cast<std::size_t>(cpu)].count[i];
    for (int i = 0; i < SF_DROP_COUNT; ++i) sum.drop[i] += values[static_cast<std::size_t>(cpu)].drop[i];
  }
  return sum;
}

// Records that somebody owns.
inline std::uint32_t count_owned(const bpf_map* owners) {
  std::uint32_t used = 0;
  for (std::uint32_t bucket = 0; bucket < bpf_map__max_entries(owners); ++bucket) {
    sf_owners some{};
    REQUIRE(bpf_map_lookup_elem(bpf_map__fd(owners), &bucket, &some) == 0);
    for (const __u64 owner : some.owner) used += owner != 0 ? 1 : 0;
  }
  return used;
}

// Without fetch atomics it is `locks` that says it (bpf/take.bpf.h); keys of tables lie behind those of records.
inline std::uint32_t count_locked_tables(const bpf_map* locks) {
  std::uint32_t used = 0;
  std::uint32_t key = 0;
  for (const std::uint32_t* last = nullptr; bpf_map_get_next_key(bpf_map__fd(locks), last, &key) == 0; last = &key) {
    used += key >> 31U;
  }
  return used;
}

inline std::uint32_t count_taken(const bpf_map* tables, const bpf_map* locks) {
  if (!fetch_atomics()) return count_locked_tables(locks);
  std::uint32_t used = 0;
  const auto table = std::make_unique<sf_table>();
  for (std::uint32_t number = 0; number < bpf_map__max_entries(tables); ++number) {
    REQUIRE(bpf_map_lookup_elem(bpf_map__fd(tables), &number, table.get()) == 0);
    used += table->taken != 0 ? 1 : 0;
  }
  return used;
}

}  // namespace bodytest
