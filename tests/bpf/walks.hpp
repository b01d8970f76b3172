// SPDX-License-Identifier: Apache-2.0
// Loads the walk with a store of the test's, and runs it on stacks that the test made.
#pragma once

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "base/process.h"
#include "bpf/unwind_store.h"
#include "tests/bpf/loaded.hpp"
#include "tests/bpf/walks.h"
// After the structs that it holds.
#include "walks.skel.h"
#include "walks_no_fetch.skel.h"

namespace bodytest {

inline constexpr std::uint32_t kRanges = 4096;
inline constexpr std::uint32_t kChunks = 2;
inline constexpr spanfold::ProcessKey kProcess{.start_boottime_ns = 7, .pid = 8, .exec_id = 9};

struct WalksDeleter {
  void operator()(walks_bpf* skeleton) const { walks_bpf::destroy(skeleton); }
};

class Walks {
 public:
  explicit Walks(std::uint32_t max_frames = SF_USER_FRAMES) : skeleton_(open_bodies<walks_bpf, walks_no_fetch_bpf>()) {
    bpf_map__set_max_entries(skeleton_->maps.ranges, kRanges);
    bpf_map__set_max_entries(skeleton_->maps.chunks, kChunks);
    bpf_map__set_max_entries(skeleton_->maps.spaces, 16);
    skeleton_->rodata->knobs.max_frames = max_frames;
    REQUIRE(walks_bpf::load(skeleton_.get()) == 0);
    auto store = spanfold::bpf::UnwindStore::open({.spaces = bpf_map__fd(skeleton_->maps.spaces),
                                                   .ranges = bpf_map__fd(skeleton_->maps.ranges),
                                                   .sections = bpf_map__fd(skeleton_->maps.sections),
                                                   .chunks = bpf_map__fd(skeleton_->maps.chunks),
                                                   .rules = bpf_map__fd(skeleton_->maps.rules),
                                                   .range_count = kRanges,
                                                   .chunk_count = kChunks});
    REQUIRE(store);
    store_ = std::make_unique<spanfold::bpf::UnwindStore>(*std::move(store));
    store_->use_version(&skeleton_->bss->spaces_version);
  }

  sf_walk_io walk(sf_walk_io io) {
    const std::uint32_t zero = 0;
    io.process = {.start_ns = kProcess.start_boottime_ns, .tgid = kProcess.pid, .exec_id = kProcess.exec_id};
    const int map = bpf_map__fd(skeleton_->maps.walk_io);
    REQUIRE(bpf_map_update_elem(map, &zero, &io, BPF_ANY) == 0);
    LIBBPF_OPTS(bpf_test_run_opts, opts);
    REQUIRE(bpf_prog_test_run_opts(bpf_program__fd(skeleton_->progs.body_walk), &opts) == 0);
    REQUIRE(bpf_map_lookup_elem(map, &zero, &io) == 0);
    return io;
  }
  spanfold::bpf::UnwindStore& store() { return *store_; }
  decltype(walks_bpf::maps)& maps() { return skeleton_->maps; }

 private:
  std::unique_ptr<walks_bpf, WalksDeleter> skeleton_;
  std::unique_ptr<spanfold::bpf::UnwindStore> store_;
};

}  // namespace bodytest
