// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "profile/encoder.h"
#include "profile/otlp_fields.h"
#include "report/decode.h"
#include "unit/profile/windows.h"

namespace spanfold::profile {
namespace {

using Mode = EncoderOptions::Mode;
// (pid, span, frames leaf first) to samples.
using Content = std::map<std::tuple<std::int64_t, SpanContext, std::vector<std::string>>, std::uint64_t>;

Content content_of(const std::vector<Window>& windows) {
  Content content;
  for (const Window& window : windows) {
    for (const ProcessSamples& process : window.processes) {
      for (const Sample& sample : process.on_cpu) {
        std::vector<std::string> frames;
        for (const Frame& frame : sample.frames) {
          frames.push_back(frame.function == nullptr ? fmt::format("shop+{:#x}", frame.address) : *frame.function);
        }
        if (sample.value != 0)
          content[{std::get<std::int64_t>(process.resource[1].second), sample.span, frames}] += sample.value;
      }
    }
  }
  return content;
}

void decode_into(std::string_view bytes, report::Recording& recording) {
  const auto decoded = report::decode(bytes, "test", false, recording);
  REQUIRE_MESSAGE(decoded, (decoded ? "" : decoded.error().message()));
}

Content content_of(const report::Recording& recording) {
  Content content;
  for (const report::Entry& entry : recording.entries) {
    std::vector<std::string> frames;
    for (const std::uint32_t frame : recording.stack(entry.stack)) frames.push_back(recording.frames()[frame]);
    content[{*recording.processes()[entry.process].pid, recording.spans()[entry.span], frames}] += entry.cost.count;
  }
  return content;
}

Window small_window(test::World& world) {
  Window window = test::window(0, 3, 2);
  window.processes.push_back({.resource = {{"process.pid", std::int64_t{7}}},
                              .on_cpu = {{.frames = world.stack({world.frame("leaf"), world.frame("root", 0x1300)}),
                                          .span = test::span_of(1),
                                          .value = 3},
                                         {.frames = world.stack({world.background()}), .value = 2}}});
  return window;
}

std::string hex_of(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace

TEST_CASE("golden bytes of one sample row") {
  test::World world;
  const std::string bytes = hex_of(test::encode({small_window(world)}, Mode::kMessages));
  // The zero rows, in the order of the tables; the dictionary's length before them varies.
  CHECK(bytes.find("0a0012001a0022002a0032003a00") != std::string::npos);
  // Link: 16 bytes of trace id, 8 of span id.
  CHECK(bytes.find("221c0a10" + std::string(30, '1').replace(0, 30, "101010101010101010101010101010") +
                   "01"
                   "1208"
                   "0101010101010101") != std::string::npos);
  CHECK(bytes.find(hex_of("\x2a\x04leaf")) != std::string::npos);
  // Samples {stack 2, link 1, values [3]} and {stack 1, values [2]}.
  CHECK(bytes.find("120708021801220103") != std::string::npos);
  CHECK(bytes.find("12050801220102") != std::string::npos);
  // period 10101010
  CHECK(bytes.find("3092c2e804") != std::string::npos);
}

TEST_CASE("period is 1e9 over Hz and never 0") {
  CHECK(sample_period_ns(99) == 10'101'010);
  CHECK(sample_period_ns(1000) == 1'000'000);
  CHECK(sample_period_ns(0) == 1'000'000'000);
  CHECK(sample_period_ns(4'000'000'000) == 1);
}

TEST_CASE("any order of processes and samples gives the same bytes") {
  std::mt19937 random(11);
  test::World world;
  for (int round = 0; round < 50; ++round) {
    Window window = test::random_window(world, random, 0);
    const std::string bytes = test::encode({window}, Mode::kMessages);
    std::uint64_t key = 1;
    for (ProcessSamples& process : window.processes) {
      std::shuffle(process.on_cpu.begin(), process.on_cpu.end(), random);
      std::shuffle(process.span_times.begin(), process.span_times.end(), random);
      for (Sample& sample : process.on_cpu) sample.stack_key = key++ * 0x9e3779b97f4a7c15;
    }
    std::shuffle(window.processes.begin(), window.processes.end(), random);
    REQUIRE(test::encode({window}, Mode::kMessages) == bytes);
  }
}

TEST_CASE("what is encoded is what is decoded, as messages and as increments") {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    test::World world;
    std::vector<Window> windows;
    Accounting accounting;
    for (std::uint64_t number = 0; number < 1 + random() % 5; ++number) {
      windows.push_back(test::random_window(world, random, number));
      accounting += windows.back().accounting;
    }
    report::Recording merged;
    for (const Window& window : windows) decode_into(test::encode({window}, Mode::kMessages), merged);
    report::Recording whole;
    decode_into(test::encode(windows, Mode::kIncrements), whole);

    REQUIRE(content_of(whole) == content_of(windows));
    REQUIRE(content_of(merged) == content_of(windows));
    for (const report::Recording* recording : {&merged, &whole}) {
      REQUIRE(recording->accounting == accounting);
      REQUIRE(recording->frequency_hz() == 99U);
      REQUIRE(recording->start_unix_nano() == windows.front().start_unix_nano);
      REQUIRE(recording->end_unix_nano() == windows.back().start_unix_nano + windows.back().duration_ns);
    }
  }
}

TEST_CASE("inlined functions are lines of one location, with their files") {
  test::World world;
  const std::string inner = "inner";
  const std::string outer = "outer";
  const std::string file = "/src/a.cpp";
  const std::vector<SourceLine> lines = {{&inner, &file, 7}, {&outer, nullptr, 300}};
  Frame frame = world.frame("outer", 0x1200);
  frame.lines = &lines;
  Frame elsewhere = frame;
  const std::vector<SourceLine> other_lines = {{&inner, &file, 8}, {&outer, nullptr, 300}};
  elsewhere.address = 0x1204;
  elsewhere.lines = &other_lines;
  Window window = test::window(0, 3, 0);
  window.processes.push_back(
      {.resource = {{"service.name", std::string("shop")}, {"process.pid", std::int64_t{7}}},
       .on_cpu = {{.frames = world.stack({frame, world.frame("root", 0x1300)}), .span = test::span_of(1), .value = 2},
                  {.frames = world.stack({elsewhere}), .span = test::span_of(1), .value = 1}}});
  const std::string bytes = test::encode({window}, Mode::kMessages);
  report::Recording recording;
  decode_into(bytes, recording);
  const Content expected = {{{7, test::span_of(1), {"inner", "outer", "root"}}, 2},
                            {{7, test::span_of(1), {"inner", "outer"}}, 1}};
  CHECK(content_of(recording) == expected);
  const auto count = [&](const std::string& row) {
    std::size_t found = 0;
    for (std::size_t at = bytes.find(row); at != std::string::npos; at = bytes.find(row, at + 1)) ++found;
    return found;
  };
  // Functions: inner with its file, outer and root without one.
  CHECK(count("/src/a.cpp") == 1);
  CHECK(count(std::string("\x10\x07", 2)) == 1);      // line 7
  CHECK(count(std::string("\x10\xac\x02", 3)) == 2);  // line 300, of two locations
}

TEST_CASE("increments hold new rows only") {
  test::World world;
  Encoder encoder({.mode = Mode::kIncrements, .version = "1"});
  std::string first, second;
  Window window = small_window(world);
  encoder.encode(window, first);
  window.id_seed.fill(9);
  encoder.encode(window, second);
  CHECK(first.find("leaf") != std::string::npos);
  CHECK(second.find("leaf") == std::string::npos);
  // Nothing is new: an empty dictionary still opens the increment.
  CHECK(second.starts_with(std::string("\x12\x00", 2)));
}

TEST_CASE("a known stack_key needs no frames to be looked at") {
  test::World world;
  Encoder encoder({.mode = Mode::kIncrements, .version = "1"});
  std::string bytes;
  for (int round = 0; round < 3; ++round) {
    Window window = test::window(static_cast<std::uint64_t>(round), 1, 0);
    window.processes.push_back(
        {.resource = test::process(1, "a"),
         .on_cpu = {
             {.frames = world.stack({world.frame("leaf")}), .stack_key = 77, .span = test::span_of(1), .value = 1}}});
    encoder.encode(window, bytes);
  }
  report::Recording recording;
  decode_into(bytes, recording);
  CHECK(recording.stack_count() == 1);
  CHECK(recording.entries.size() == 3);
}

TEST_CASE("a window without samples, or without time, still makes a sound profile") {
  report::Recording recording;
  Window window = test::window(0, 0, 0);
  window.duration_ns = 0;
  const std::string bytes = test::encode({window}, Mode::kMessages);
  decode_into(bytes, recording);
  CHECK(recording.entries.empty());
  CHECK(recording.accounting == window.accounting);
  CHECK(recording.end_unix_nano() == window.start_unix_nano + 1);
}

TEST_CASE("a message holds nothing of the one before") {
  for (const Mode mode : {Mode::kMessages, Mode::kIncrements}) {
    test::World world;
    Encoder encoder({.mode = mode, .version = "1"});
    std::string first, second;
    encoder.encode(small_window(world), first);
    encoder.encode(test::window(1, 0, 0), second);
    report::Recording recording;
    decode_into(mode == Mode::kMessages ? second : first + second, recording);
    CHECK(recording.entries.size() == (mode == Mode::kMessages ? 0 : 2));
  }
}

TEST_CASE("hostile names stay distinct") {
  test::World world;
  Window window = test::window(0, 4, 0);
  ProcessSamples process{.resource = test::process(1, "bad\xff"), .on_cpu = {}};
  for (const char* name : {"\xff\xc0", "\\xff\\xc0", "a\nb", ""}) {
    process.on_cpu.push_back({.frames = world.stack({world.frame(name)}), .span = test::span_of(1), .value = 1});
  }
  window.processes.push_back(process);
  report::Recording recording;
  decode_into(test::encode({window}, Mode::kMessages), recording);
  const std::set<std::string> names(recording.frames().begin(), recording.frames().end());
  CHECK(names == std::set<std::string>{"\\xff\\xc0", "\\x5cxff\\x5cxc0", "a\nb", "shop+0x1234"});
  CHECK(recording.processes().front().service == "bad\\xff");
}

}  // namespace spanfold::profile
