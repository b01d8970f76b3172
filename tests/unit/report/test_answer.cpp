// SPDX-License-Identifier: Apache-2.0
// Queries, groups, and the three formats, on one small recording.
#include <doctest/doctest.h>

#include <sstream>

#include "profile/text.h"
#include "report/decode.h"
#include "report/filter.h"
#include "report/query.h"
#include "report/render.h"
#include "report/terminal.h"
#include "unit/profile/windows.h"

namespace spanfold::report {
namespace {

using profile::test::span_of;

// Two processes, three spans, background; `walk` calls itself.
Recording recording() {
  profile::test::World world;
  profile::Window window = profile::test::window(0, 12, 4);
  const auto leaf = world.stack(
      {world.frame("parse(int)"), world.frame("shop::walk(int)"), world.frame("shop::walk(int)"), world.frame("main")});
  const auto walk = world.stack({world.frame("shop::walk(int)"), world.frame("main")});
  const auto unnamed = world.stack({world.frame("", 0x1777), world.frame("main")});
  const auto outside = world.stack({world.background()});
  window.processes.push_back({.resource = profile::test::process(11, "checkout"),
                              .on_cpu = {{.frames = leaf, .span = span_of(1), .value = 5},
                                         {.frames = walk, .span = span_of(1), .value = 2},
                                         {.frames = walk, .span = span_of(2), .value = 1},
                                         {.frames = outside, .value = 3}}});
  window.processes.push_back(
      {.resource = profile::test::process(12, "search"),
       .on_cpu = {{.frames = unnamed, .span = span_of(5), .value = 4}, {.frames = outside, .value = 1}}});
  Recording made;
  const std::string bytes = profile::test::encode({window}, profile::EncoderOptions::Mode::kMessages);
  REQUIRE(decode(bytes, "test", false, made));
  return made;
}

Query query(const Options& options) {
  const auto parsed = parse_query(options);
  REQUIRE_MESSAGE(parsed, (parsed ? "" : parsed.error().message()));
  return *parsed;
}

std::string render(const Options& options, Style style = {}) {
  const Recording made = recording();
  const Query asked = query(options);
  const Answer found = answer(made, asked);
  if (asked.format == Format::kJson) return render_json(made, found);
  return asked.format == Format::kFolded ? render_folded(made, found) : render_text(made, found, style);
}

std::vector<std::string> keys(const Options& options) {
  const Recording made = recording();
  std::vector<std::string> found;
  for (const Row& row : answer(made, query(options)).rows) {
    found.push_back(row.key + "=" + std::to_string(sum(row.cost).count));
  }
  return found;
}

using Keys = std::vector<std::string>;

}  // namespace

TEST_CASE("options that make no sense are usage errors") {
  for (const Options& options :
       {Options{.by = "route"}, Options{.by = "x"}, Options{.kind = "x"}, Options{.format = "x"}, Options{.top = 0},
        Options{.top = -1}, Options{.paths = {""}}, Options{.paths = {"a", ""}}, Options{.output = ""},
        Options{.spans = {"12"}}, Options{.spans = {"zz00000000000000"}}, Options{.traces = {"0123456789abcdef"}}}) {
    const auto parsed = parse_query(options);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().failure == Failure::kUsage);
    CHECK_FALSE(parsed.error().hint.empty());
  }
  const std::string hint = parse_query({.by = "route"}).error().hint;
  CHECK(hint.find("--traces") != std::string::npos);
  CHECK(hint.find("cannot read yet") != std::string::npos);
}

TEST_CASE("groups are sorted by cost and then by key, and add up") {
  CHECK(keys({.by = "span"}) == Keys{"0101010101010101=7", "0505050505050505=4", "[no span]=4", "0202020202020202=1"});
  CHECK(keys({.by = "trace"}) ==
        Keys{"10101010101010101010101010101001=8", "10101010101010101010101010101002=4", "[no span]=4"});
  CHECK(keys({.by = "process"}) == Keys{"11=11", "12=5"});
  CHECK(keys({.by = "service"}) == Keys{"checkout=11", "search=5"});
  CHECK(keys({.by = "function"}) ==
        Keys{"parse(int)=5", "[background]=4", "shop+0x1777=4", "shop::walk(int)=3", "main=0"});
  CHECK(keys({.by = "stack"}).front() == "main;shop::walk(int);shop::walk(int);parse(int)=5");
}

TEST_CASE("recursion counts once in a total") {
  const Recording made = recording();
  const Answer found = answer(made, query({.by = "function"}));
  for (const Row& row : found.rows) {
    if (row.key == "shop::walk(int)") CHECK(sum(*row.total).count == 8);
    if (row.key == "main") CHECK(sum(*row.total).count == 12);
  }
}

TEST_CASE("filters") {
  CHECK(keys({.spans = {"0101010101010101"}}) == Keys{"0101010101010101=7"});
  CHECK(keys({.traces = {"10101010101010101010101010101001"}}) == Keys{"0101010101010101=7", "0202020202020202=1"});
  CHECK(keys({.pids = {12}}) == Keys{"0505050505050505=4", "[no span]=1"});
  CHECK(keys({.services = {"checkout"}, .functions = {"walk"}}) == Keys{"0101010101010101=7", "0202020202020202=1"});
  CHECK(keys({.functions = {"parse", "nothing"}}) == Keys{"0101010101010101=5"});
  CHECK(keys({.kind = "blocked"}).empty());
  CHECK(is_function("ns::f<int>(char)", "f<int>"));
  CHECK(is_function("(anonymous namespace)::f(int)", "(anonymous namespace)::f(int)"));
  CHECK_FALSE(is_function("ns::gf(int)", "f"));
  CHECK_FALSE(is_function("f", ""));
}

TEST_CASE("--top keeps the sum in a row of others") {
  const Recording made = recording();
  const Answer found = answer(made, query({.top = 1}));
  CHECK(found.rows.size() == 1);
  CHECK(found.cut_rows == 3);
  CHECK(sum(found.others->cost).count == 9);
  CHECK(sum(found.cost).count == 16);
}

TEST_CASE("text of one span") {
  CHECK(render({.spans = {"0101010101010101"}}) ==
        "asked 99 Hz, achieved 99.0 Hz\n"
        "\n"
        "span 0101010101010101  trace 1010101010101010…  checkout (pid 11)   ≈ 71 ms on CPU   7 samples at 99 Hz\n"
        "    5  71.4 %  parse(int)\n"
        "    2  28.6 %  shop::walk(int)\n"
        "\n"
        "ticks 23 = in span 12 + background 4 + idle 7 + dropped 0; missed 0\n");
  CHECK(render({.functions = {"nothing"}}).starts_with("no samples match\n"));
}

TEST_CASE("text by function") {
  CHECK(render({.by = "function", .top = 2}) ==
        "asked 99 Hz, achieved 99.0 Hz\n"
        "\n"
        "   self            total          function\n"
        "      5  31.2 %        5  31.2 %  parse(int)\n"
        "      4  25.0 %        4  25.0 %  [background]\n"
        "      7  43.8 %                   and 3 more\n"
        "\n"
        "ticks 23 = in span 12 + background 4 + idle 7 + dropped 0; missed 0\n");
}

TEST_CASE("text is colored and cut only where asked") {
  CHECK(render({}).find('\x1b') == std::string::npos);
  CHECK(render({}, {.color = true}).find("\x1b[1mspan") != std::string::npos);
  const std::string narrow = render({}, {.color = false, .width = 20});
  std::istringstream lines(narrow);
  for (std::string line; std::getline(lines, line);) CHECK((columns(line) <= 20 || line.starts_with("ticks ")));
}

TEST_CASE("what a span cost and the accounting are never cut") {
  const std::string narrow = render({.spans = {"0202020202020202"}}, {.color = false, .width = 45});
  CHECK(narrow.find(" at 99 Hz\n") != std::string::npos);
  CHECK(narrow.find("; missed 0\n") != std::string::npos);
}

TEST_CASE("JSON of one span") {
  CHECK(
      render({.format = "json", .spans = {"0202020202020202"}}) ==
      R"x({"schema":"spanfold.report/1","window":{"start_unix_nano":"1700000000000000000","duration_ns":1000000000},)x"
      R"x("frequency_hz":99,"achieved_hz":99.0,"accounting":{"ticks":23,"in_span":12,"background":4,"idle":7,)x"
      R"x("filtered":0,"dropped":{},"missed":0},"rows":[{"key":"0202020202020202",)x"
      R"x("trace_id":"10101010101010101010101010101001","span_id":"0202020202020202","service":"checkout","pid":11,"process":"checkout-bin",)x"
      R"x("on_cpu":{"samples":1,"ns":10101010},"stacks":[{"kind":"on_cpu","count":1,"ns":10101010,)x"
      R"x("frames":["shop::walk(int)","main"]}]}]})x"
      "\n");
}

TEST_CASE("folded") {
  CHECK(render({.format = "folded"}) ==
        "[background] 4\n"
        "main;shop+0x1777 4\n"
        "main;shop::walk(int) 3\n"
        "main;shop::walk(int);shop::walk(int);parse(int) 5\n");
}

TEST_CASE("folded names survive a round trip") {
  for (const std::string name : {"semi;colon fn", "ends 42", "a\nb", "a\rb", " led", "trailed ", "tab\tbed", "\\x3b",
                                 "back\\slash", "h\u00e9"}) {
    const std::string folded = folded_frame(name);
    CHECK(folded.find_first_of(";\n\r") == std::string::npos);
    CHECK_FALSE(folded.ends_with(' '));
    CHECK(profile::restore_bytes(folded) == name);
  }
  CHECK(folded_frame(std::string("nul\0", 4)) == "nul\\x00");
  // What the recorder escaped stays as it is, and leads to the bytes of the file.
  CHECK(folded_frame(profile::to_valid_utf8("\xff\xc0")) == "\\xff\\xc0");
  CHECK(profile::restore_bytes(folded_frame(profile::to_valid_utf8("\\x3b;\xff"))) == "\\x3b;\xff");
  CHECK(folded_frame("\xff") == "\\xff");
}

TEST_CASE("terminals obey nothing in a name") {
  CHECK(printable("\x1b[31mred\n") == "\\u{1b}[31mred\\u{a}");
  CHECK(printable("\u202egnp") == "\\u{202e}gnp");
  CHECK(printable("\u009b1m\u2066") == "\\u{9b}1m\\u{2066}");
  CHECK(printable("\xff") == "\\xff");
  CHECK(printable("h\u00e9 \u6f22") == "h\u00e9 \u6f22");
  CHECK(columns("h\u00e9") == 2);
  CHECK(columns("\u6f22\u5b57") == 4);
  CHECK(columns("e\u0301") == 1);
  CHECK(fit("\u6f22\u5b57\u6f22", 4) == "\u6f22…");
  CHECK(fit("abcd", 4) == "abcd");
  CHECK(fit("abcde", 4) == "abc…");
}

}  // namespace spanfold::report
