// SPDX-License-Identifier: Apache-2.0
// When a map counts as standing still, and which processes as left out. (What is said of it: tests/e2e.)
#include <doctest/doctest.h>

#include "app/diagnosis.h"

using spanfold::ProcessKey;
using spanfold::app::StillMap;
using spanfold::app::Unserved;
using spanfold::bpf::Bank;
using spanfold::bpf::ContextGlimpse;

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr ContextGlimpse kFirst{.entries = 3, .sum = 17};
constexpr ContextGlimpse kOther{.entries = 3, .sum = 18};

ProcessKey process(std::uint32_t pid) { return {.start_boottime_ns = 1, .pid = pid, .exec_id = 1}; }

}  // namespace

TEST_CASE("a map stands still after ten seconds with work in them, and that is said once") {
  StillMap still(10 * kSecond);
  CHECK(still.wants_look(kSecond));
  CHECK(!still.look(kFirst, kSecond, 0));
  CHECK(!still.wants_look(kSecond + 1));  // not at each flush of a fast one
  CHECK(!still.look(kFirst, 10 * kSecond, 500));
  CHECK(still.look(kFirst, 11 * kSecond, 500));
  CHECK(!still.wants_look(100 * kSecond));
}

TEST_CASE("a map without work beside it may stand still") {
  StillMap still(10 * kSecond);
  CHECK(!still.look(kFirst, kSecond, 1000));
  CHECK(!still.look(kFirst, 60 * kSecond, 1050));
  CHECK(still.look(kFirst, 61 * kSecond, 1100));
}

TEST_CASE("a map that was seen to change needs no more looks; an empty one is none that stands still") {
  StillMap still(10 * kSecond);
  CHECK(!still.look({}, kSecond, 0));
  CHECK(!still.look({}, 20 * kSecond, 1000));
  CHECK(!still.look(kFirst, 30 * kSecond, 2000));
  CHECK(!still.look(kOther, 50 * kSecond, 9000));
  CHECK(!still.wants_look(100 * kSecond));
}

TEST_CASE("busy processes without a span, the busiest first, where others have theirs") {
  Unserved unserved;
  Bank bank{.by_process = {{process(1), 40}, {process(2), 300}, {process(3), 60}, {process(4), 25}}};
  unserved.add(bank);
  CHECK(unserved.list().empty());  // nobody has a span: that is another matter
  bank.by_process = {{process(1), 40}, {process(3), 500}, {process(5), 10}};
  bank.carriers = {process(5)};
  unserved.add(bank);
  CHECK(unserved.list() == std::vector<ProcessKey>{process(3), process(2), process(1)});
  bank.carriers = {process(3), process(5)};
  unserved.add(bank);
  CHECK(unserved.list() == std::vector<ProcessKey>{process(2), process(1)});
}

TEST_CASE("processes that come and go do not pile up") {
  Unserved unserved;
  for (std::uint32_t pid = 1; pid <= 100'000; ++pid)
    unserved.add({.by_process = {{process(pid), pid % 10'000 ? 3U : 70U}}});
  unserved.add({.by_process = {{process(7), 1}}, .carriers = {process(7)}});
  CHECK(unserved.list().size() == 10);
}
