// SPDX-License-Identifier: Apache-2.0
// Windows for tests, with all that their frames point to.
#pragma once

#include <deque>
#include <random>
#include <string>
#include <vector>

#include "profile/encoder.h"
#include "profile/model.h"

namespace spanfold::profile::test {

inline SpanContext span_of(std::uint8_t number) {
  SpanContext span;
  if (number == 0) return span;
  span.trace_id.fill(0x10);
  span.trace_id.back() = static_cast<std::uint8_t>(number / 4 + 1);
  span.span_id.fill(number);
  return span;
}

// Owns frames, names and mappings; all stay where they are.
class World {
 public:
  const Mapping* mapping(const std::string& filename) {
    for (const Mapping& known : mappings_) {
      if (known.filename == filename) return &known;
    }
    Mapping made;
    made.memory_start = 0x1000;
    made.memory_limit = 0x90000;
    made.filename = filename;
    made.build_id_gnu = "00ff";
    made.htlhash = std::string(32, 'a');
    return &mappings_.emplace_back(made);
  }
  const std::string* name(const std::string& text) { return &names_.emplace_back(text); }

  Frame frame(const std::string& function, std::uint64_t address = 0x1234) {
    return {.mapping = mapping("/usr/bin/shop"),
            .function = function.empty() ? nullptr : name(function),
            .address = address};
  }
  Frame background() { return {.function = name("[background]"), .type = FrameType::kAbortMarker}; }
  std::span<const Frame> stack(std::vector<Frame> frames) { return stacks_.emplace_back(std::move(frames)); }

 private:
  std::deque<Mapping> mappings_;
  std::deque<std::string> names_;
  std::deque<std::vector<Frame>> stacks_;
};

inline Attributes process(std::int64_t pid, const std::string& service) {
  return {{"service.name", service}, {"process.pid", pid}, {"process.executable.name", service + "-bin"}};
}

// One second each, one after the other, with an accounting that adds up to `in_span` and `background`.
inline Window window(std::uint64_t number, std::uint64_t in_span, std::uint64_t background) {
  Window made;
  made.start_unix_nano = 1'700'000'000'000'000'000 + number * 1'000'000'000;
  made.duration_ns = 1'000'000'000;
  made.frequency_hz = 99;
  made.accounting = {.ticks = in_span + background + 7, .in_span = in_span, .background = background, .idle = 7};
  made.id_seed.fill(static_cast<std::uint8_t>(number + 1));
  return made;
}

inline SpanTime span_time(std::uint8_t span, bool ended, std::vector<Stay> stays) {
  return {.span = span_of(span), .ended = ended, .stays = std::move(stays)};
}

// Times of some of the spans of random_window(), one stay or two each, within one second from `start`.
inline std::vector<SpanTime> random_times(std::mt19937& random, std::uint64_t start) {
  std::vector<SpanTime> times;
  for (std::uint8_t span = 1; span < 7; ++span) {
    if (random() % 2 == 0) continue;
    std::vector<Stay> stays = {{start + random() % 1000, 1 + random() % 100'000'000}};
    if (random() % 3 == 0) stays.push_back({start + 500'000'000 + random() % 1000, 1 + random() % 500'000});
    times.push_back(span_time(span, random() % 2 == 0, std::move(stays)));
  }
  return times;
}

// Spans, stacks, names and values at random; `world` holds the frames.
inline Window random_window(World& world, std::mt19937& random, std::uint64_t number) {
  const auto below = [&](std::uint32_t limit) { return static_cast<std::uint32_t>(random() % limit); };
  std::uint64_t in_span = 0, background = 0;
  std::vector<ProcessSamples> processes(1 + below(3));
  for (std::size_t at = 0; at < processes.size(); ++at) {
    processes[at].resource = process(static_cast<std::int64_t>(100 + at), at == 0 ? "checkout" : "search");
    for (std::uint32_t left = below(12); left > 0; --left) {
      std::vector<Frame> frames;
      for (std::uint32_t depth = 1 + below(5); depth > 0; --depth) {
        const std::uint32_t function = below(9);
        frames.push_back(world.frame(function == 0 ? "" : "f" + std::to_string(function), 0x2000 + 16 * function));
      }
      const auto span = static_cast<std::uint8_t>(below(7));
      const std::uint64_t value = below(4);
      (span == 0 ? background : in_span) += value;
      processes[at].on_cpu.push_back({.frames = world.stack(frames), .span = span_of(span), .value = value});
    }
  }
  Window made = window(number, in_span, background);
  for (ProcessSamples& each : processes) {
    if (below(2) == 0) each.span_times = random_times(random, made.start_unix_nano);
  }
  if (below(2) == 0) made.accounting.recursion_misses = below(3);
  made.accounting.unsampled = below(3);
  made.processes = std::move(processes);
  return made;
}

inline std::string encode(const std::vector<Window>& windows, EncoderOptions::Mode mode) {
  Encoder encoder({.mode = mode, .version = "1.2.3"});
  std::string bytes;
  for (const Window& each : windows) encoder.encode(each, bytes);
  return bytes;
}

}  // namespace spanfold::profile::test
