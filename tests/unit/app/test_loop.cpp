// SPDX-License-Identifier: Apache-2.0
// The loop's rounds: what an action does counts for the rest of its own.
#include <doctest/doctest.h>
#include <poll.h>

#include "app/loop.h"

using spanfold::Fd;
using spanfold::ok;
using spanfold::Status;
using spanfold::app::arm_timer;
using spanfold::app::Loop;

namespace {

constexpr std::uint64_t kHourNs = 3'600'000'000'000;

void await(const Fd& timer) {
  pollfd ready{.fd = timer.get(), .events = POLLIN, .revents = 0};
  REQUIRE(poll(&ready, 1, -1) == 1);
}

}  // namespace

TEST_CASE("a timer that an action arms anew does not run in the same round") {
  auto loop = Loop::create();
  REQUIRE(loop);
  Fd left;
  Fd right;
  int runs = 0;
  // Both are due in the first round; whichever comes first puts the other one off.
  const auto put_off = [&](Fd& other) {
    return [&loop, &runs, &other]() -> Status {
      ++runs;
      loop->stop();
      return arm_timer(other, kHourNs, false);
    };
  };
  REQUIRE(loop->watch_timer(left, 1, false, put_off(right)));
  REQUIRE(loop->watch_timer(right, 1, false, put_off(left)));
  await(left);
  await(right);
  REQUIRE(loop->run());
  CHECK(runs == 1);
}

TEST_CASE("a failed action ends the loop") {
  auto loop = Loop::create();
  REQUIRE(loop);
  Fd timer;
  REQUIRE(loop->watch_timer(timer, 1, true, []() -> Status { return spanfold::Error{.what = "no"}; }));
  CHECK(!loop->run());
}
