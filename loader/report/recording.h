// SPDX-License-Identifier: Apache-2.0
// What was read from all files, merged: frames, stacks, spans and processes exist once and are numbers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/frame.h"
#include "profile/hash.h"
#include "profile/model.h"
#include "profile/row_memory.h"

namespace spanfold::report {

enum class Kind : std::uint8_t { kOnCpu, kBlocked, kRunnable };
inline constexpr std::array kKinds = {Kind::kOnCpu, Kind::kBlocked, Kind::kRunnable};
inline constexpr std::size_t kKindCount = kKinds.size();
[[nodiscard]] constexpr std::string_view kind_name(Kind kind) {
  constexpr std::array<std::string_view, kKindCount> kNames = {"on_cpu", "blocked", "runnable"};
  return kNames[static_cast<std::size_t>(kind)];
}

// Samples (on_cpu) or events (blocked, runnable), and the time they stand for.
struct Cost {
  std::uint64_t count = 0;
  std::uint64_t ns = 0;  // 0 where the file gives no period

  Cost& operator+=(const Cost& other) {
    count += other.count;
    ns += other.ns;
    return *this;
  }
  auto operator<=>(const Cost&) const = default;
};

struct Process {
  std::optional<std::int64_t> pid;
  std::string service;     // service.name; empty: not known
  std::string executable;  // process.executable.name; empty: not known
  std::string host, container;
  auto operator<=>(const Process&) const = default;
};
[[nodiscard]] inline std::size_t text_bytes(const Process& process) {
  return process.service.size() + process.executable.size() + process.host.size() + process.container.size();
}

struct Entry {
  std::uint32_t process = 0;
  std::uint32_t span = 0;  // 0: none
  std::uint32_t stack = 0;
  Kind kind = Kind::kOnCpu;
  Cost cost;
};

// A stretch of time that a span was on a thread, or a part of one.
struct TimedStay {
  std::uint32_t process = 0;
  std::uint32_t span = 0;  // never 0
  std::uint64_t begin_unix_nano = 0;
  std::uint64_t length_ns = 0;
  bool ended = false;  // the span did, in the window that this is of

  [[nodiscard]] std::uint64_t end_unix_nano() const { return begin_unix_nano + length_ns; }
};

class Recording {
 public:
  Recording();

  std::uint32_t add_frame(std::string_view name);
  std::uint32_t add_stack(std::span<const std::uint32_t> frames);  // leaf first
  std::uint32_t add_span(const SpanContext& span);                 // 0 for none
  std::uint32_t add_process(const Process& process);
  void add_window(std::uint64_t start_unix_nano, std::uint64_t duration_ns);
  void add_frequency(std::uint32_t hz);

  [[nodiscard]] const std::vector<std::string>& frames() const { return frames_; }
  [[nodiscard]] std::span<const std::uint32_t> stack(std::uint32_t id) const;
  [[nodiscard]] std::size_t stack_count() const { return stacks_.size(); }
  [[nodiscard]] std::size_t stack_frame_count() const { return stack_frames_.size(); }
  [[nodiscard]] const std::vector<SpanContext>& spans() const { return spans_; }
  [[nodiscard]] const std::vector<Process>& processes() const { return processes_; }

  // NOLINTBEGIN(misc-non-private-member-variables-in-classes): plain lists beside the numbered tables that it guards
  std::vector<Entry> entries;
  std::vector<TimedStay> stays;
  std::optional<profile::Accounting> accounting;  // of the files that carry one
  std::vector<std::string> skipped_types;         // sample types that report does not know
  // NOLINTEND(misc-non-private-member-variables-in-classes)

  // All that counts as read, so that a file can be taken back. Names and stacks stay: nothing leads to them any more.
  struct Mark {
    std::size_t entries = 0, stays = 0, skipped_types = 0;
    std::optional<profile::Accounting> accounting;
    std::uint64_t start_unix_nano = 0, end_unix_nano = 0;
    std::optional<std::uint32_t> frequency_hz;
    bool mixed = false;
  };
  [[nodiscard]] Mark mark() const;
  void take_back(Mark mark);  // to what mark() gave

  // Of all profiles; 0, 0 where there is none.
  [[nodiscard]] std::uint64_t start_unix_nano() const { return start_unix_nano_; }
  [[nodiscard]] std::uint64_t end_unix_nano() const { return end_unix_nano_; }
  // Where the files say one and the same.
  [[nodiscard]] std::optional<std::uint32_t> frequency_hz() const { return mixed_ ? std::nullopt : frequency_hz_; }
  // Of that, what reached a program: the share of ticks that were not missed. Needs the accounting.
  [[nodiscard]] std::optional<double> achieved_hz() const;

 private:
  struct Range {
    std::size_t begin;
    std::uint32_t size;
  };
  [[nodiscard]] profile::Hasher hasher() const { return profile::Hasher(seed_); }

  profile::Hash128 seed_;                                                 // random: names in files are anybody's
  profile::RowTable frame_rows_, stack_rows_, span_rows_, process_rows_;  // row = number + 1
  std::vector<std::string> frames_;
  std::vector<std::uint32_t> stack_frames_;
  std::vector<Range> stacks_;
  std::vector<SpanContext> spans_;
  std::vector<Process> processes_;
  std::uint64_t start_unix_nano_ = 0, end_unix_nano_ = 0;
  std::optional<std::uint32_t> frequency_hz_;
  bool mixed_ = false;
};

}  // namespace spanfold::report
