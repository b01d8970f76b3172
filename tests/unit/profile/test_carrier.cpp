// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "profile/accounting.h"
#include "profile/carrier.h"
#include "unit/profile/windows.h"

namespace spanfold::profile {

TEST_CASE("accounting adds up and reads well") {
  Accounting accounting{
      .ticks = 4950, .in_span = 3100, .background = 840, .idle = 1000, .dropped = {{"ring_full", 10}}, .missed = 3};
  CHECK(accounting.adds_up());
  CHECK(describe(accounting) ==
        "ticks 4950 = in span 3100 + background 840 + idle 1000 + dropped 10 (ring_full 10); missed 3");
  accounting += {.ticks = 6, .filtered = 4, .dropped = {{"pool_empty", 2}}};
  CHECK(accounting.adds_up());
  CHECK(
      describe(accounting) ==
      "ticks 4956 = in span 3100 + background 840 + idle 1000 + filtered 4 + dropped 12 (pool_empty 2, ring_full 10); "
      "missed 3");
  ++accounting.ticks;
  CHECK_FALSE(accounting.adds_up());

  CHECK(describe({.recursion_misses = 0}).ends_with("; missed 0"));
  Accounting hooked{.missed = 1, .recursion_misses = 2};
  hooked += {.missed = 1};
  hooked += {.recursion_misses = 3, .unsampled = 4};
  CHECK(describe(hooked).ends_with("; missed 2; recursion misses 5"));
  CHECK(hooked.unsampled == 4);
  CHECK(hooked.adds_up());
}

TEST_CASE("windows without samples become part of the next") {
  test::World world;
  WindowCarrier carrier;
  CHECK_FALSE(carrier.take_last());
  CHECK_FALSE(carrier.admit(test::window(0, 0, 0)));
  Window zero = test::window(1, 0, 0);
  zero.processes.push_back({.resource = {}, .on_cpu = {{.frames = world.stack({world.frame("f")}), .value = 0}}});
  CHECK_FALSE(carrier.admit(std::move(zero)));

  Window full = test::window(2, 1, 0);
  full.processes.push_back(
      {.resource = {}, .on_cpu = {{.frames = world.stack({world.frame("f")}), .span = test::span_of(1), .value = 1}}});
  const auto written = carrier.admit(full);
  REQUIRE(written);
  CHECK(written->start_unix_nano == test::window(0, 0, 0).start_unix_nano);
  CHECK(written->duration_ns == 3'000'000'000);
  CHECK(written->accounting.ticks == 8 + 7 + 7);
  CHECK(written->accounting.adds_up());
  CHECK_FALSE(carrier.take_last());

  CHECK_FALSE(carrier.admit(test::window(3, 0, 0)));
  CHECK_FALSE(carrier.admit(test::window(4, 0, 0)));
  const auto last = carrier.take_last();
  REQUIRE(last);
  CHECK(last->duration_ns == 2'000'000'000);
  CHECK(last->accounting.ticks == 14);
  CHECK_FALSE(carrier.take_last());
}

TEST_CASE("a window with times of spans and no samples is written") {
  WindowCarrier carrier;
  Window empty = test::window(0, 0, 0);
  empty.processes.push_back({.resource = {}, .span_times = {test::span_time(1, true, {})}});  // no stay
  CHECK_FALSE(carrier.admit(empty));
  Window timed = test::window(1, 0, 0);
  timed.processes.push_back({.resource = {}, .span_times = {test::span_time(1, true, {{timed.start_unix_nano, 5}})}});
  const auto written = carrier.admit(timed);
  REQUIRE(written);
  CHECK(written->accounting.ticks == 14);
  CHECK(written->processes.front().span_times.size() == 1);
  CHECK_FALSE(carrier.take_last());
}

TEST_CASE("a carried window encloses both, also when the clock stepped back") {
  test::World world;
  WindowCarrier carrier;
  CHECK_FALSE(carrier.admit(test::window(10, 0, 0)));
  Window full = test::window(4, 1, 0);
  full.processes.push_back({.resource = {}, .on_cpu = {{.frames = world.stack({world.frame("f")}), .value = 1}}});
  const auto written = carrier.admit(full);
  REQUIRE(written);
  CHECK(written->start_unix_nano == full.start_unix_nano);
  CHECK(written->duration_ns == 7'000'000'000);
}

}  // namespace spanfold::profile
