// SPDX-License-Identifier: Apache-2.0
// First sight of stacks, and the look into the context map.
#include <doctest/doctest.h>

#include <random>

#include "tests/bpf/bodies.hpp"

using bodytest::Bodies;

namespace {

sf_body_input stack(std::uint64_t id, std::uint32_t frames = 3) {
  sf_body_input input = {};
  input.process = {.start_ns = 1, .tgid = 2, .exec_id = 3};
  input.stack_id = id;
  input.frames = frames;
  return input;
}

}  // namespace

TEST_CASE("a stack is sent once, and again after the loader forgot") {
  Bodies bpf({});
  for (int i = 0; i < 3; ++i) {
    sf_body_input input = stack(42);
    bpf.call(bpf.progs().body_send, input);
  }
  bpf.drain();
  CHECK(bpf.stacks[42] == 1);
  bpf.skeleton().bss->sent_since = 1;
  for (int i = 0; i < 3; ++i) {
    sf_body_input input = stack(42);
    bpf.call(bpf.progs().body_send, input);
  }
  bpf.drain();
  CHECK(bpf.stacks[42] == 2);
}

TEST_CASE("a refused stack is not marked as sent") {
  Bodies bpf({.ring_bytes = 4096, .sent_sets = 128});
  std::mt19937_64 random(5);
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < 200; ++i) {
    sf_body_input input = stack(ids.emplace_back(random()), 100);
    bpf.call(bpf.progs().body_send, input);
  }
  CHECK(bpf.counters(0).count[SF_COUNT_STACKS_REFUSED] > 100);
  for (int round = 0; round < 100; ++round) {
    bpf.drain();
    for (const std::uint64_t id : ids) {
      sf_body_input input = stack(id, 100);
      bpf.call(bpf.progs().body_send, input);
    }
  }
  bpf.drain();
  CHECK(bpf.stacks.size() == ids.size());
}

TEST_CASE("a set that is full replaces an id: such a stack is sent more often, never less") {
  Bodies bpf({.sent_sets = 1});
  std::mt19937_64 random(6);
  std::vector<std::uint64_t> ids(40);
  for (auto& id : ids) id = random();
  for (int round = 0; round < 5; ++round) {
    for (const std::uint64_t id : ids) {
      sf_body_input input = stack(id);
      bpf.call(bpf.progs().body_send, input);
    }
    bpf.drain();
  }
  CHECK(bpf.stacks.size() == ids.size());
}

TEST_CASE("context: no map, no entry, an entry, an entry of zeros") {
  const int map = bodytest::make_context_map();
  Bodies bpf({.context_map = map});
  sf_body_input input = {};
  input.pid_tgid = 5;
  bpf.call(bpf.progs().body_context, input);
  CHECK(input.result == SF_SOURCE_NONE);
  CHECK(bpf.counters(0).count[SF_COUNT_NO_MAP] == 1);

  const std::uint32_t slot = 0;
  REQUIRE(bpf_map_update_elem(bpf_map__fd(bpf.maps().context), &slot, &map, BPF_ANY) == 0);
  input.span = {.trace_id = {9, 9}, .span_id = 9};
  bpf.call(bpf.progs().body_context, input);
  CHECK(input.result == SF_SOURCE_NONE);
  CHECK(input.span.span_id == 0);
  CHECK(input.span.trace_id[0] == 0);

  const std::uint64_t key = 5;
  const sf_span span{.trace_id = {1, 2}, .span_id = 3};
  REQUIRE(bpf_map_update_elem(map, &key, &span, BPF_ANY) == 0);
  bpf.call(bpf.progs().body_context, input);
  CHECK(input.result == SF_SOURCE_MAP);
  CHECK(sf_same_span(&input.span, &span));
  input.pid_tgid = 6;
  bpf.call(bpf.progs().body_context, input);
  CHECK(input.result == SF_SOURCE_NONE);

  const sf_span zero{};
  REQUIRE(bpf_map_update_elem(map, &key, &zero, BPF_ANY) == 0);
  input.pid_tgid = 5;
  bpf.call(bpf.progs().body_context, input);
  CHECK(input.result == SF_SOURCE_NONE);
  close(map);
}
