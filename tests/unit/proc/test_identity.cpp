// SPDX-License-Identifier: Apache-2.0
// /proc/PID/stat: hostile program names, and when a process counts as the one that was sampled.
#include <doctest/doctest.h>

#include <string>

#include "proc/identity.h"

namespace spanfold::proc {
namespace {

std::string stat_of(const std::string& name) {
  return "5204 (" + name +
         ") R 5199 5199 3297 0 -1 4194304 99 0 0 0 0 0 0 0 20 0 1 0 74207 3133440 362 18446744073709551615 "
         "94423797080064 94423797099945 140734496008480 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0\n";
}

}  // namespace

TEST_CASE("stat: whatever the program is called") {
  for (const char* name :
       {"cat", "", "a b", ") R 1 2 3", "((", "x) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 2 3", "n\nl"}) {
    const auto stat = parse_stat(stat_of(name));
    REQUIRE(stat.has_value());
    CHECK(stat->start_ticks == 74207);
    CHECK(stat->image.start_code == 94423797080064);
    CHECK(stat->image.end_code == 94423797099945);
    CHECK(stat->image.start_stack == 140734496008480);
  }
}

TEST_CASE("stat: cut anywhere before the last field that counts, it is refused") {
  const std::string text = stat_of("cat");
  const std::size_t enough = text.find("140734496008480") + 15;
  for (std::size_t length = 0; length < enough - 15; ++length) CHECK(!parse_stat(text.substr(0, length)));
  CHECK(parse_stat(text.substr(0, enough)));
}

TEST_CASE("status: the innermost pid and the effective user, or nothing") {
  const std::string text =
      "Name:\ta\\nNSpid:\t9\nPid:\t7\nUid:\t1000\t1001\t1002\t1003\nNSpid:\t7012\t33\t1\nKthread:\t0\n";
  const auto status = parse_status(text);
  REQUIRE(status);
  CHECK(status->inner_pid == 1);
  CHECK(status->user_id == 1001);
  CHECK(parse_status("Name:\tx\nUid:\t1\t2\t3\t4\nNSpid:\t7")->inner_pid == 7);
  for (const char* bad : {"", "\nNSpid:\t7\n", "\nUid:\t0\t0\t0\t0\n", "\nUid:\t0\t0\t0\t0\nNSpid:\n",
                          "\nUid:\t0\t0\nNSpid:\t1\n", "\nUid:\t0\t0\t0\t0\nNSpid:\t1 2\n",
                          "\nUid:\t0\t0\t0\t-1\nNSpid:\t1\n", "\nUid:\t0\t0\t0\t0\nNSpid:\t99999999999\n"}) {
    CHECK(!parse_status(bad));
  }
}

TEST_CASE("identity: start time to the clock tick, and an image that is one") {
  const ProcessStat stat{.start_ticks = 74207, .image = {1, 2, 3}};
  const ProcessKey key{.start_boottime_ns = 742'073'456'789, .pid = 1};
  CHECK(is_same_process(stat, key));
  CHECK(is_same_image(stat, key, {1, 2, 3}));
  CHECK(!is_same_image(stat, key, {1, 2, 4}));
  CHECK(!is_same_image({.start_ticks = 74207}, key, {}));
  CHECK(!is_same_process(stat, {.start_boottime_ns = 742'083'456'789, .pid = 1}));
}

}  // namespace spanfold::proc
