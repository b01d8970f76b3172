// SPDX-License-Identifier: Apache-2.0
// bpf/core.h on the host, held against a naive model: what folds must come out again, once and under its own stack.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "bpf/core.h"

namespace {

using Key = std::pair<std::uint64_t, std::uint32_t>;  // stack id, kind
using Model = std::map<Key, std::uint64_t>;

void take(const sf_slot* slots, std::uint32_t count, Model& into) {
  for (std::uint32_t i = 0; i < count; ++i) into[{slots[i].stack_id, slots[i].kind}] += slots[i].count;
}

// Ids as the hash makes them, and ids that share their low bits, so that probes collide.
std::uint64_t some_id(std::mt19937_64& random, std::uint64_t distinct) {
  const std::uint64_t number = 1 + random() % distinct;
  return random() % 2 == 0 ? sf_mix(7, number) : (number << 32 | 5);
}

}  // namespace

TEST_CASE("inline slots count what the model counts, and refuse without a change") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    sf_fold_head head{};
    sf_slot slots[SF_INLINE_SLOTS];
    std::memset(slots, 0xee, sizeof(slots));  // stale slots must not be read
    Model model;
    const std::uint64_t distinct = 1 + random() % 20;
    for (int step = 0; step < 60; ++step) {
      const std::uint64_t id = some_id(random, distinct);
      const auto kind = static_cast<std::uint32_t>(random() % 2);
      const bool known = model.contains({id, kind});
      const bool room = model.size() < SF_INLINE_SLOTS;
      const auto folded = sf_fold_inline(&head, slots, id, kind);
      CHECK((folded == SF_FOLDED) == (known || room));
      if (folded == SF_FOLDED) ++model[{id, kind}];
    }
    Model seen;
    take(slots, head.head.count, seen);
    REQUIRE(seen == model);
  }
}

TEST_CASE("a table counts what the model counts, and what it refuses is in nobody's count") {
  std::mt19937_64 random(2);
  auto table = std::make_unique<sf_table>();
  std::uint64_t refused = 0;
  for (int round = 0; round < 400; ++round) {
    std::memset(static_cast<void*>(&table->msg), 0xee, sizeof(table->msg));
    sf_table_clear(table.get());
    Model model;
    const std::uint64_t distinct = 1 + random() % 400;
    for (int step = 0; step < 1500; ++step) {
      const std::uint64_t id = some_id(random, distinct);
      const auto folded = sf_fold_table(table.get(), id, SF_KIND_ON_CPU);
      if (model.contains({id, SF_KIND_ON_CPU})) CHECK(folded == SF_FOLDED);
      if (folded == SF_FOLDED) {
        ++model[{id, SF_KIND_ON_CPU}];
      } else {
        ++refused;
      }
    }
    Model seen;
    take(table->msg.slots, table->msg.fold.head.count, seen);
    REQUIRE(seen == model);
    CHECK(model.size() <= SF_TABLE_SLOTS);
  }
  CHECK(refused > 0);
}

TEST_CASE("a table takes nearly as many stacks as it has slots before it is called full") {
  std::mt19937_64 random(3);
  auto table = std::make_unique<sf_table>();
  std::uint64_t least = SF_TABLE_SLOTS;
  for (int round = 0; round < 200; ++round) {
    sf_table_clear(table.get());
    while (sf_fold_table(table.get(), random(), SF_KIND_ON_CPU) == SF_FOLDED) {
    }
    least = std::min<std::uint64_t>(least, table->msg.fold.head.count);
  }
  CHECK(least > SF_TABLE_SLOTS / 2);
}

TEST_CASE("stack ids: no collision among many like stacks, and each part of a stack matters") {
  std::set<std::uint64_t> ids;
  std::size_t stacks = 0;
  for (std::uint32_t tgid = 1; tgid <= 4; ++tgid) {
    for (std::uint32_t exec = 0; exec < 2; ++exec) {
      const sf_process process{.start_ns = 1000, .tgid = tgid, .exec_id = exec};
      for (std::uint32_t kernel = 0; kernel <= 2; ++kernel) {
        for (std::uint64_t leaf = 0; leaf < 4000; ++leaf) {
          std::uint64_t hash = sf_hash_open(99, &process);
          for (const std::uint64_t frame : {0x401000 + leaf, std::uint64_t{0x402000}, 0x403000 + leaf % 7})
            hash = sf_mix(hash, frame);
          for (const std::uint32_t end : {SF_END_BOTTOM, SF_END_DEPTH}) {
            ids.insert(sf_hash_close(hash, kernel, 3, end));
            ++stacks;
          }
        }
      }
    }
  }
  CHECK(ids.size() == stacks);
  CHECK(!ids.contains(0));
}

TEST_CASE("another seed gives other ids and buckets") {
  const sf_process process{.start_ns = 1, .tgid = 2, .exec_id = 3};
  CHECK(sf_hash_open(1, &process) != sf_hash_open(2, &process));
  int moved = 0;
  for (std::uint64_t thread = 1; thread <= 1000; ++thread)
    moved += sf_bucket(1, thread, 511) != sf_bucket(2, thread, 511);
  CHECK(moved > 900);
}

TEST_CASE("threads spread over buckets: consecutive ids do not crowd") {
  std::vector<int> load(512);
  for (std::uint64_t thread = 0; thread < 2048; ++thread)
    ++load[sf_bucket(12345, (1000ULL << 32) | (1000 + thread), 511)];
  int crowded = 0;
  for (const int count : load) crowded += count > SF_BUCKET_WAYS;
  CHECK(crowded < 40);  // a Poisson mean of 4: 2 % of 512 buckets hold more than 8
}

TEST_CASE("spans compare by all three words") {
  const sf_span base{.trace_id = {1, 2}, .span_id = 3};
  CHECK(sf_same_span(&base, &base));
  for (const sf_span& other : {sf_span{{9, 2}, 3}, sf_span{{1, 9}, 3}, sf_span{{1, 2}, 9}}) {
    CHECK(!sf_same_span(&base, &other));
  }
  const sf_span sibling{.trace_id = {1, 2}, .span_id = 9};
  CHECK(sf_same_trace(&base, &sibling));
}
