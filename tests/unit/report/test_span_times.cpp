// SPDX-License-Identifier: Apache-2.0
// When spans were on threads, over windows, processes and groups, in text and JSON.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "profile/stays.h"
#include "report/decode.h"
#include "report/group.h"
#include "report/query.h"
#include "report/render.h"
#include "unit/profile/windows.h"

namespace spanfold::report {
namespace {

using profile::test::span_of;
using profile::test::span_time;

constexpr std::uint64_t kStart = 1'700'000'000'000'000'000;  // 2023-11-14T22:13:20Z, of test::window(0, …)
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kMs = 1'000'000;

// Span 1 over two windows, with samples; span 2 in two processes, span 6 of another trace: without.
Recording recording() {
  profile::test::World world;
  const auto leaf = world.stack({world.frame("parse"), world.frame("main")});
  profile::Window first = profile::test::window(0, 2, 0);
  first.accounting.missed = 3;
  first.processes.push_back(
      {.resource = profile::test::process(11, "checkout"),
       .on_cpu = {{.frames = leaf, .span = span_of(1), .value = 2}},
       .span_times = {span_time(1, false, {{kStart + 900 * kMs, 100 * kMs}}),
                      span_time(2, true, {{kStart + 5 * kMs, 2 * kMs}, {kStart + 9 * kMs, 1 * kMs}})}});
  first.processes.push_back({.resource = profile::test::process(12, "search"),
                             .on_cpu = {},
                             .span_times = {span_time(2, false, {{kStart + 6 * kMs, 3 * kMs}})}});
  profile::Window second = profile::test::window(1, 0, 0);
  second.accounting.recursion_misses = 4;
  second.accounting.unsampled = 2;
  second.processes.push_back({.resource = profile::test::process(11, "checkout"),
                              .on_cpu = {},
                              .span_times = {span_time(1, true, {{kStart + kSecond, 50 * kMs}}),
                                             span_time(6, true, {{kStart + kSecond + 7, 1}})}});
  Recording made;
  for (const profile::Window& window : {first, second}) {
    REQUIRE(decode(profile::test::encode({window}, profile::EncoderOptions::Mode::kMessages), "test", false, made));
  }
  return made;
}

Query query(const Options& options) {
  const auto parsed = parse_query(options);
  REQUIRE_MESSAGE(parsed, (parsed ? "" : parsed.error().message()));
  return *parsed;
}

struct Line {
  std::string key;
  std::uint64_t samples = 0;
  // From kStart on; -1: times not known.
  std::int64_t begin_ms = -1, end_ms = -1, on_thread_ms = -1, stays = -1;
  std::optional<bool> ended;
  bool operator==(const Line&) const = default;
};

Line line_of(const Row& row) {
  Line line{.key = row.key, .samples = sum(row.cost).count, .ended = row.ended};
  if (!row.times) return line;
  line.begin_ms = static_cast<std::int64_t>((row.times->start_unix_nano - kStart) / kMs);
  line.end_ms = static_cast<std::int64_t>((row.times->end_unix_nano - kStart) / kMs);
  line.on_thread_ms = static_cast<std::int64_t>(row.times->on_thread_ns / kMs);
  line.stays = static_cast<std::int64_t>(row.times->stays);
  return line;
}

std::vector<Line> lines(const Options& options) {
  const Recording made = recording();
  const Answer found = answer(made, query(options));
  std::vector<Line> all;
  for (const Row& row : found.rows) all.push_back(line_of(row));
  if (found.others) all.push_back(line_of(*found.others));
  return all;
}

std::string render(const Options& options) {
  const Recording made = recording();
  const Query asked = query(options);
  const Answer found = answer(made, asked);
  return asked.format == Format::kJson ? render_json(made, found) : render_text(made, found, {});
}

using Lines = std::vector<Line>;

// One span's stays, each list a window of one second of its own; ended in the last of them, or not.
Line merged(const std::vector<std::vector<profile::Stay>>& windows, bool ended = true) {
  Recording made;
  for (std::size_t at = 0; at < windows.size(); ++at) {
    profile::Window window = profile::test::window(at, 0, 0);
    const bool last = at + 1 == windows.size();
    window.processes.push_back(
        {.resource = {}, .on_cpu = {}, .span_times = {span_time(1, last && ended, windows[at])}});
    REQUIRE(decode(profile::test::encode({window}, profile::EncoderOptions::Mode::kMessages), "test", false, made));
  }
  const Answer found = answer(made, query({}));
  REQUIRE(found.rows.size() == 1);
  return line_of(found.rows.front());
}

}  // namespace

TEST_CASE("rows of spans have their times, those without samples come last") {
  const Line one = {"0101010101010101", 2, 900, 1050, 150, 1, true};
  const Line two = {"0202020202020202", 0, 5, 10, 6, 2, true};  // process 11 told of its end, and was the last
  const Line six = {"0606060606060606", 0, 1000, 1000, 0, 1, true};
  CHECK(lines({}) == Lines{one, two, six});
  CHECK(lines({.top = 1}) == Lines{one, {"[others]", 0, 5, 1000, 6, 3, {}}});
  CHECK(lines({.spans = {"0202020202020202"}}) == Lines{two});
  CHECK(lines({.traces = {"10101010101010101010101010101001"}}) == Lines{one, two});
  CHECK(lines({.pids = {12}}) == Lines{{"0202020202020202", 0, 6, 9, 3, 1, false}});
  CHECK(lines({.top = 2, .services = {"checkout"}}) ==
        Lines{one, {"0202020202020202", 0, 5, 10, 3, 2, true}, {"[others]", 0, 1000, 1000, 0, 1, {}}});
  CHECK(lines({.pids = {13}}).empty());
  CHECK(lines({.kind = "on_cpu"}).size() == 3);
  CHECK(lines({.kind = "blocked"}).empty());
  CHECK(lines({.functions = {"parse"}}) == Lines{one});
  CHECK(lines({.functions = {"nothing"}}).empty());
}

TEST_CASE("other groups add up the times of their spans") {
  CHECK(lines({.by = "trace"}) == Lines{{"10101010101010101010101010101001", 2, 5, 1050, 156, 3, {}},
                                        {"10101010101010101010101010101002", 0, 1000, 1000, 0, 1, {}}});
  const Lines processes = lines({.by = "process"});
  CHECK(processes == Lines{{"11", 2, 5, 1050, 153, 4, {}}, {"12", 0, 6, 9, 3, 1, {}}});
  const Lines services = lines({.by = "service"});
  CHECK(services == Lines{{"checkout", 2, 5, 1050, 153, 4, {}}, {"search", 0, 6, 9, 3, 1, {}}});
  CHECK(lines({.by = "function"}).front().stays == -1);
  CHECK(lines({.by = "stack"}) == Lines{{"main;parse", 2, -1, -1, -1, -1, {}}});
}

TEST_CASE("stays go on over windows, and so do those of several threads") {
  const std::uint64_t linger = profile::kLingerNs;
  const std::uint64_t next = kStart + kSecond;
  CHECK(merged({{{next - kMs, kMs}}, {{next, kMs}}}) == Line{"0101010101010101", 0, 999, 1001, 2, 1, true});
  CHECK(merged({{{next - kMs, kMs}}, {{next + linger, kMs}}}).stays == 1);
  CHECK(merged({{{next - kMs, kMs}}, {{next + linger + 1, kMs}}}).stays == 2);
  CHECK(merged({{{next - 2 * kMs, 2 * kMs}, {next - kMs, kMs}}, {{next, 3 * kMs}, {next, 5 * kMs}}}) ==
        Line{"0101010101010101", 0, 998, 1005, 11, 2, true});
  // An end mark: a stay with gaps that add up to more than the linger is still one.
  CHECK(merged({{{next - 900 * kMs, 200 * kMs}, {next - 1, 1}}, {{next, 7 * kMs}}}) ==
        Line{"0101010101010101", 0, 100, 1007, 207, 1, true});
  CHECK(merged({{{next - kMs, kMs}}, {{next, kMs}}}, false).ended == false);
  // That it ended is true of a span that does not go on: its threads were seen again.
  Recording made;
  for (const bool ended : {false, true}) {
    profile::Window window = profile::test::window(ended ? 0 : 1, 0, 0);
    window.processes.push_back(
        {.resource = {}, .on_cpu = {}, .span_times = {span_time(1, ended, {{window.start_unix_nano, kMs}})}});
    REQUIRE(decode(profile::test::encode({window}, profile::EncoderOptions::Mode::kMessages), "test", false, made));
  }
  CHECK(answer(made, query({})).rows.front().ended == false);
}

TEST_CASE("JSON of times and rates") {
  CHECK(
      render({.format = "json", .spans = {"0202020202020202"}}) ==
      R"x({"schema":"spanfold.report/1","window":{"start_unix_nano":"1700000000000000000","duration_ns":2000000000},)x"
      R"x("frequency_hz":99,"achieved_hz":83.4,"accounting":{"ticks":16,"in_span":2,"background":0,"idle":14,)x"
      R"x("filtered":0,"dropped":{},"missed":3,"recursion_misses":4,"unsampled":2},"rows":[)x"
      R"x({"key":"0202020202020202","trace_id":"10101010101010101010101010101001","span_id":"0202020202020202",)x"
      R"x("start_unix_nano":"1700000000005000000","end_unix_nano":"1700000000010000000","ended":true,)x"
      R"x("on_cpu":{"samples":0,"ns":0},"on_thread_ns":6000000,"stays":2,"stacks":[]}]})x"
      "\n");
  const std::string traces = render({.by = "trace", .format = "json"});
  CHECK(traces.find("\"ended\"") == std::string::npos);
  CHECK(traces.find("\"on_thread_ns\":156000000,\"stays\":3") != std::string::npos);
}

TEST_CASE("text of times and rates") {
  CHECK(render({.spans = {"0101010101010101"}}) ==
        "asked 99 Hz, achieved 83.4 Hz\n"
        "\n"
        "span 0101010101010101  trace 1010101010101010…  checkout (pid 11)   ≈ 20 ms on CPU   2 samples at 99 Hz   "
        "150 ms on threads in 1 stay\n"
        "  begin 2023-11-14T22:13:20.900000000Z  end 2023-11-14T22:13:21.050000000Z\n"
        "    2 100.0 %  parse\n"
        "\n"
        "ticks 16 = in span 2 + background 0 + idle 14 + dropped 0; missed 3; recursion misses 4\n");
  const std::string going_on = render({.spans = {"0202020202020202"}, .pids = {12}});
  CHECK(going_on.find("search (pid 12)   no samples   3 ms on threads in 1 stay\n"
                      "  begin 2023-11-14T22:13:20.006000000Z  last seen 2023-11-14T22:13:20.009000000Z\n") !=
        std::string::npos);
  const std::string all = render({.top = 1});
  CHECK(all.find("  begin ") == std::string::npos);
  CHECK(all.find("and 2 more   no samples   6 ms on threads in 3 stays\n") != std::string::npos);
}

TEST_CASE("folded stacks know no times") {
  const Recording made = recording();
  CHECK(render_folded(made, answer(made, query({.format = "folded"}))) == "main;parse 2\n");
}

TEST_CASE("the achieved rate needs one asked rate and an accounting") {
  Recording made = recording();
  REQUIRE(made.achieved_hz());
  made.add_frequency(49);
  CHECK_FALSE(made.achieved_hz());
  Recording bare;
  bare.add_frequency(99);
  CHECK_FALSE(bare.achieved_hz());
  bare.accounting.emplace();
  CHECK_FALSE(bare.achieved_hz());
}

}  // namespace spanfold::report
