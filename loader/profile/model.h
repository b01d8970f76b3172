// SPDX-License-Identifier: Apache-2.0
// What one flush has to say, before it becomes bytes: spans' folds by process, background, accounting, window.
// Holds no clocks and no randomness: equal windows encode to equal bytes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/frame.h"

namespace spanfold::profile {

// Where every tick went. ticks = in_span + background + idle + filtered + sum(dropped), exactly; missed stands beside.
struct Accounting {
  std::uint64_t ticks = 0;
  std::uint64_t in_span = 0;
  std::uint64_t background = 0;
  std::uint64_t idle = 0;
  std::uint64_t filtered = 0;
  std::map<std::string, std::uint64_t> dropped;  // by reason; reasons without a drop may be absent
  std::uint64_t missed = 0;                      // ticks that the clock owed and no program saw
  // Beside the ticks: hooks on the context map that the kernel skipped (none: nobody was hooked), and stays of spans on
  // threads that ended without a sample.
  std::optional<std::uint64_t> recursion_misses;
  std::uint64_t unsampled = 0;

  [[nodiscard]] std::uint64_t dropped_total() const;
  [[nodiscard]] bool adds_up() const;
  Accounting& operator+=(const Accounting& other);
  bool operator==(const Accounting&) const = default;
};

// Samples of one stack in one span (or in none: a span of zeros) of one process.
struct Sample {
  std::span<const Frame> frames;  // leaf first; lives as long as the window
  std::uint64_t stack_key = 0;    // names the frames: equal keys, equal frames, through one recording. 0: no such key
  SpanContext span;
  std::uint64_t value = 0;  // samples
};

// A stretch of time that a span was on a thread.
struct Stay {
  std::uint64_t begin_unix_nano = 0;
  std::uint64_t length_ns = 0;  // at least 1
  auto operator<=>(const Stay&) const = default;
};

// A span's stays on threads within the window.
struct SpanTime {
  SpanContext span;
  bool ended = false;       // its end was seen, on every thread, and no thread carries it
  std::vector<Stay> stays;  // by begin; those of several threads may overlap
};

using AttributeValue = std::variant<std::string, std::int64_t>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

// One process (or "all others together", with host attributes only), its on-CPU samples, its spans' times.
struct ProcessSamples {
  Attributes resource;  // service.name, process.pid, …; keys unique
  std::vector<Sample> on_cpu;
  std::vector<SpanTime> span_times;  // each span once
};

struct Window {
  std::uint64_t start_unix_nano = 0;
  std::uint64_t duration_ns = 0;
  std::uint32_t frequency_hz = 0;
  Accounting accounting;                   // difference since the previous window that was written
  std::array<std::uint8_t, 16> id_seed{};  // random; profile ids are derived from it
  std::vector<ProcessSamples> processes;
};

}  // namespace spanfold::profile
