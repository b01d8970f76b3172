// SPDX-License-Identifier: Apache-2.0
// The governor of the rate, against hosts whose costs are known.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "app/overhead.h"

using spanfold::app::Cost;
using spanfold::app::Overhead;

namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;

// Percent of a CPU at a rate: what costs at any rate, and what each Hz adds.
struct Host {
  double loader_percent = 0;
  double percent_per_hz = 0;
};

// Runs windows of `seconds` each through the governor, one of them late as in the session; gives what it said.
struct Run {
  Overhead governor;
  std::uint32_t rate_hz;
  std::vector<std::string> words;

  explicit Run(const Overhead::Options& options) : governor(options), rate_hz(options.frequency_hz) {}

  void windows(int count, double seconds, const Host& host) {
    for (int i = 0; i < count; ++i) {
      const double ns_per_percent = seconds * static_cast<double>(kSecondNs) / 100;
      const Cost cost{.wall_ns = static_cast<std::uint64_t>(seconds * static_cast<double>(kSecondNs)),
                      .bpf_ns = static_cast<std::uint64_t>(host.percent_per_hz * rate_hz * ns_per_percent),
                      .loader_ns = static_cast<std::uint64_t>(host.loader_percent * ns_per_percent)};
      const std::uint32_t in_force = rate_hz;
      rate_hz = governor.wanted_hz();
      Overhead::Verdict verdict = governor.look(cost, in_force);
      CHECK(verdict.frequency_hz == governor.wanted_hz());
      CHECK(verdict.frequency_hz >= 1);
      if (!verdict.words.empty()) words.push_back(verdict.words);
    }
  }
};

}  // namespace

TEST_CASE("below the limit nothing happens, and a limit of 0 is none") {
  Run cheap({.limit_percent = 1, .frequency_hz = 99});
  cheap.windows(100, 5, {.loader_percent = 0.2, .percent_per_hz = 0.005});
  CHECK(cheap.rate_hz == 99);
  CHECK(cheap.words.empty());
  Run free({.limit_percent = 0, .frequency_hz = 4999});
  free.windows(100, 5, {.loader_percent = 50, .percent_per_hz = 0.01});
  CHECK(free.rate_hz == 4999);
  CHECK(free.words.empty());
}

TEST_CASE("above the limit the rate is halved until it fits, each time with the figures") {
  Run run({.limit_percent = 1, .frequency_hz = 1000});
  run.windows(2, 5, {.loader_percent = 0.1, .percent_per_hz = 0.003});
  REQUIRE(run.words.size() == 1);
  CHECK(
      run.words[0] ==
      "BPF and loader took 3.1 % of a CPU (3 and 0.1), more than --max-overhead 1: sampling at 500 Hz instead of 1000 "
      "from here on");
  run.windows(60, 5, {.loader_percent = 0.1, .percent_per_hz = 0.003});
  CHECK(run.rate_hz == 250);
  CHECK(run.words.size() == 2);
}

TEST_CASE("a burst does not count, in one window or over two") {
  for (const double seconds : {0.1, 1.0, 5.0, 60.0}) {
    CAPTURE(seconds);
    Run run({.limit_percent = 1, .frequency_hz = 99});
    const Host calm{.loader_percent = 0.1, .percent_per_hz = 0.004};
    run.windows(1, seconds, {.loader_percent = 40, .percent_per_hz = 0.004});
    run.windows(static_cast<int>(10 / seconds) + 1, seconds, calm);
    run.windows(1, seconds, {.loader_percent = 40, .percent_per_hz = 0.004});
    run.windows(static_cast<int>(10 / seconds) + 1, seconds, calm);
    CHECK(run.words.empty());
  }
}

TEST_CASE("at least two windows and ten seconds are looked at") {
  const Host dear{.percent_per_hz = 0.1};
  Run fast({.limit_percent = 1, .frequency_hz = 99});
  fast.windows(99, 0.1, dear);
  CHECK(fast.words.empty());
  fast.windows(2, 0.1, dear);
  CHECK(fast.words.size() == 1);
  Run slow({.limit_percent = 1, .frequency_hz = 99});
  slow.windows(1, 60, dear);
  CHECK(slow.words.empty());
  slow.windows(1, 60, dear);
  CHECK(slow.words.size() == 1);
}

TEST_CASE("where a lower rate does not help, it says so and does not sink") {
  Run run({.limit_percent = 1, .frequency_hz = 99});
  const Host loader{.loader_percent = 3, .percent_per_hz = 0.003};
  run.windows(200, 5, loader);
  CHECK(run.rate_hz == 49);
  REQUIRE(run.words.size() == 2);
  CHECK(
      run.words[1] ==
      "BPF and loader take 3.1 % of a CPU (0.15 and 3) at 49 Hz, more than --max-overhead 1, but a lower rate does not "
      "help; what helps is a longer --flush, --symbols none or a higher limit");
  // Another load: the rate is what costs now.
  run.windows(20, 5, {.loader_percent = 0.1, .percent_per_hz = 0.1});
  CHECK(run.rate_hz == 6);
}

TEST_CASE("at 1 Hz it stays, and says so once") {
  Run run({.limit_percent = 0.01, .frequency_hz = 4});
  run.windows(100, 5, {.percent_per_hz = 1});
  CHECK(run.rate_hz == 1);
  REQUIRE(run.words.size() == 3);
  CHECK(run.words[2].find("the rate cannot be lower") != std::string::npos);
}

TEST_CASE("the rate rises again when the load is gone, not in a hurry, and never above what was asked") {
  Run run({.limit_percent = 1, .frequency_hz = 99});
  run.windows(20, 5, {.percent_per_hz = 0.03});
  CHECK(run.rate_hz == 24);
  run.words.clear();
  run.windows(5, 5, {.percent_per_hz = 0.001});
  CHECK(run.words.empty());
  run.windows(200, 5, {.percent_per_hz = 0.001});
  CHECK(run.rate_hz == 99);
  REQUIRE(run.words.size() == 2);
  CHECK(run.words[1] ==
        "BPF and loader took 0.049 % of a CPU, well below --max-overhead 1: sampling at 99 Hz instead of 49 from here "
        "on");
}

TEST_CASE("no load makes the rate swing") {
  for (int step = 1; step < 200; ++step) {
    Run run({.limit_percent = 1, .frequency_hz = 997});
    const Host host{.loader_percent = 0.05, .percent_per_hz = 0.0005 * step};
    run.windows(100, 5, host);
    const std::size_t settled = run.words.size();
    run.windows(500, 5, host);
    CAPTURE(step);
    CHECK(run.words.size() == settled);
  }
}
