// SPDX-License-Identifier: Apache-2.0
// Clocks, durations and sizes.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

using spanfold::BootToUnix;
using spanfold::Failure;
using spanfold::parse_duration_ns;
using spanfold::parse_size_bytes;

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kLargest = 9'223'372'036'854'775'807ULL;

struct Case {
  std::string_view text;
  std::uint64_t value;
};

}  // namespace

TEST_CASE("durations as people write them") {
  const std::vector<Case> cases = {{"10", 10 * kSecond},
                                   {"0", 0},
                                   {"500ms", kSecond / 2},
                                   {"10s", 10 * kSecond},
                                   {"5m", 300 * kSecond},
                                   {"1h", 3600 * kSecond},
                                   {"2.5s", 2'500'000'000},
                                   {".5s", kSecond / 2},
                                   {"1.000000001", kSecond + 1},
                                   {"100us", 100'000},
                                   {"7ns", 7},
                                   {"9223372036854775807ns", kLargest}};
  for (const auto& each : cases) {
    CAPTURE(each.text);
    const auto parsed = parse_duration_ns(each.text);
    REQUIRE(parsed);
    CHECK(*parsed == each.value);
  }
}

TEST_CASE("durations that make no sense are usage errors that name the text") {
  const std::vector<std::string_view> cases = {"",
                                               "s",
                                               ".",
                                               "-1s",
                                               "+1s",
                                               " 1s",
                                               "1 s",
                                               "1s ",
                                               "1x",
                                               "1S",
                                               "1e3",
                                               "1..5s",
                                               "1.2.3",
                                               "0.5ns",
                                               "0x10",
                                               "9223372036854775808ns",
                                               "9223372037s",
                                               "99999999999999999999999999999999999999999999999999",
                                               "1d",
                                               {"1\0s", 3}};
  for (const std::string_view text : cases) {
    CAPTURE(text);
    const auto parsed = parse_duration_ns(text);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().failure == Failure::kUsage);
    CHECK(parsed.error().message().find(std::string(text)) != std::string::npos);
    CHECK_FALSE(parsed.error().hint.empty());
  }
}

TEST_CASE("sizes as people write them") {
  const std::vector<Case> cases = {{"0", 0},           {"4096", 4096},       {"10KiB", 10'240},
                                   {"10k", 10'240},    {"64M", 64U << 20},   {"64mib", 64U << 20},
                                   {"2G", 2ULL << 30}, {"2GiB", 2ULL << 30}, {"1T", 1ULL << 40},
                                   {"0.5K", 512},      {"1tib", 1ULL << 40}, {"9223372036854775807", kLargest}};
  for (const auto& each : cases) {
    CAPTURE(each.text);
    const auto parsed = parse_size_bytes(each.text);
    REQUIRE(parsed);
    CHECK(*parsed == each.value);
  }
}

TEST_CASE("sizes that make no sense are usage errors") {
  for (const std::string_view text :
       {"", "K", "KiB", "-1", "1KB", "1 K", "1KK", "1.5", "9223372036854775808", "8388608T", "ten"}) {
    CAPTURE(text);
    const auto parsed = parse_size_bytes(text);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().failure == Failure::kUsage);
  }
}

TEST_CASE("boot time translates to Unix time") {
  const auto clock = BootToUnix::now();
  const std::uint64_t before = spanfold::unix_clock_ns();
  const std::uint64_t translated = clock.unix_ns(spanfold::boot_clock_ns());
  const std::uint64_t after = spanfold::unix_clock_ns();
  constexpr std::uint64_t kSlack = 1'000'000;
  CHECK(translated + kSlack >= before);
  CHECK(translated <= after + kSlack);
}

TEST_CASE("a boot time later than Unix time translates too") {
  CHECK(BootToUnix(-5).unix_ns(7) == 2);
  CHECK(BootToUnix(5).unix_ns(7) == 12);
}

TEST_CASE("a difference stays as it is until somebody sets the clock") {
  const BootToUnix first(1'000'000);
  CHECK(first.renewed(BootToUnix(1'049'000)).offset_ns() == 1'000'000);
  CHECK(first.renewed(BootToUnix(951'000)).offset_ns() == 1'000'000);
  CHECK(first.renewed(BootToUnix(1'051'000)).offset_ns() == 1'051'000);
  CHECK(first.renewed(BootToUnix(-3'600'000'000'000)).offset_ns() == -3'600'000'000'000);
}

TEST_CASE("the boot clock does not go back") {
  const std::uint64_t first = spanfold::boot_clock_ns();
  CHECK(spanfold::boot_clock_ns() >= first);
}
