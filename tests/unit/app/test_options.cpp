// SPDX-License-Identifier: Apache-2.0
// The command line of record: what is accepted, and what is a usage error.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "app/options.h"

using spanfold::Failure;
using spanfold::app::Background;
using spanfold::app::parse_record;
using spanfold::bpf::Lifecycle;

TEST_CASE("defaults are those of the README") {
  const auto parsed = parse_record({});
  REQUIRE(parsed);
  CHECK(parsed->options.output == "spanfold.otlp");
  CHECK(parsed->options.frequency_hz == 99);
  CHECK(parsed->options.duration_ns == 0);
  CHECK(parsed->options.flush_ns == 5'000'000'000);
  CHECK(parsed->options.background == Background::kCount);
  CHECK(parsed->options.local_symbols);
  CHECK(parsed->options.command.empty());
  CHECK(parsed->options.lifecycle == Lifecycle::kAuto);
  CHECK(!parsed->options.span_times);
  CHECK(parsed->options.max_span_age_ns == 0);
  CHECK(parsed->options.max_overhead_percent == 1);
}

TEST_CASE("lists, repeats and the command") {
  const auto parsed = parse_record(
      {"-p", "1,2", "--pid",        "3",      "-C",        "0-2,5", "--cpu",    "1",      "-d",       "500ms",
       "-F", "997", "--background", "stacks", "--symbols", "none",  "--cgroup", "a,/b/c", "--cgroup", "d"});
  REQUIRE(parsed);
  CHECK(parsed->options.pids == std::vector<std::uint32_t>{1, 2, 3});
  CHECK(parsed->options.cpus == std::vector<int>{0, 1, 2, 5});
  CHECK(parsed->options.cgroups == std::vector<std::string>{"a", "/b/c", "d"});
  CHECK(parsed->options.duration_ns == 500'000'000);
  CHECK(parsed->options.background == Background::kStacks);
  CHECK(!parsed->options.local_symbols);
  const auto command = parse_record({"-F", "49", "--", "sh", "-c", "exit 3", "--", "-F", "x"});
  REQUIRE(command);
  CHECK(command->options.frequency_hz == 49);
  CHECK(command->options.command == std::vector<std::string>{"sh", "-c", "exit 3", "--", "-F", "x"});
}

TEST_CASE("a span's life and its price") {
  const auto parsed =
      parse_record({"--lifecycle", "sweep", "--span-times", "--max-span-age", "30s", "--max-overhead", "0.25"});
  REQUIRE(parsed);
  CHECK(parsed->options.lifecycle == Lifecycle::kSweep);
  CHECK(parsed->options.span_times);
  CHECK(parsed->options.max_span_age_ns == 30'000'000'000);
  CHECK(parsed->options.max_overhead_percent == 0.25);
  const auto free = parse_record({"--lifecycle", "fentry", "--max-overhead", "0"});
  REQUIRE(free);
  CHECK(free->options.lifecycle == Lifecycle::kFentry);
  CHECK(free->options.max_overhead_percent == 0);
}

TEST_CASE("what makes no sense is a usage error of one line with a hint") {
  const std::vector<std::vector<std::string>> bad = {{"--bogus"},
                                                     {"-F"},
                                                     {"-F", "0"},
                                                     {"-F", "many"},
                                                     {"-F", "-1"},
                                                     {"-d", "soon"},
                                                     {"-d", "0"},
                                                     {"-d", "5x"},
                                                     {"-p", "0"},
                                                     {"-p", "-4"},
                                                     {"-p", "1,x"},
                                                     {"-C", "3-1"},
                                                     {"-C", "a"},
                                                     {"-C", "99999999"},
                                                     {"--cgroup", ""},
                                                     {"--cgroup"},
                                                     {"--background", "all"},
                                                     {"-e", "cycles"},
                                                     {"--flush", "0"},
                                                     {"--flush", "1us"},
                                                     {"--max-disk", "big"},
                                                     {"--lifecycle", "kprobe"},
                                                     {"--max-span-age", "0"},
                                                     {"--max-span-age", "old"},
                                                     {"--max-span-age", ""},
                                                     {"--max-frames", "0"},
                                                     {"--max-frames", "129"},
                                                     {"--max-overhead", "-1"},
                                                     {"--max-overhead", "nan"},
                                                     {"--max-overhead", "inf"},
                                                     {"--max-overhead", "1e1"},
                                                     {"--max-overhead", "1%"},
                                                     {"--max-overhead", "1,5"},
                                                     {"--max-overhead", "10001"},
                                                     {"--max-overhead", ""},
                                                     {"stray"},
                                                     {"--symbols", "all"},
                                                     {"--"},
                                                     {"-p", "1", "--", "true"}};
  for (const auto& words : bad) {
    const auto parsed = parse_record(words);
    std::string line;
    for (const auto& word : words) line += word + " ";
    CAPTURE(line);
    REQUIRE(!parsed);
    CHECK(parsed.error().failure == Failure::kUsage);
    CHECK(parsed.error().message().find('\n') == std::string::npos);
    CHECK(!parsed.error().hint.empty());
  }
}
