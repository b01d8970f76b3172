// SPDX-License-Identifier: Apache-2.0
#include "app/gather.h"

#include <algorithm>
#include <array>
#include <utility>

#include "app/span_hash.h"
#include "base/clock.h"

namespace spanfold::app {
namespace {

// Frames that stand for what has no address. The words are part of the report's contract.
Frame synthetic_frame(const std::string& word) { return Frame{.function = &word, .type = FrameType::kAbortMarker}; }

const std::string kBackgroundWord = "[background]";
const std::string kLostWord = "[frames lost]";
const std::string kUnknownWord = "[unknown]";
// By bpf::WalkEnd; empty: the stack is whole.
const std::array<std::string, 11> kEndWords = {"",
                                               "",
                                               "[truncated]",
                                               "[mappings not known yet]",
                                               "[return address outside code]",
                                               "[no unwind table]",
                                               "[no unwind rule]",
                                               "[unsupported unwind rule]",
                                               "[broken frame]",
                                               "[unreadable stack]",
                                               "[zero return address]"};
const Frame kBackgroundFrame = synthetic_frame(kBackgroundWord);
const Frame kLostFrame = synthetic_frame(kLostWord);
const Frame kUnknownFrame = synthetic_frame(kUnknownWord);
const std::array<Frame, kEndWords.size()> kEndFrames = [] {
  std::array<Frame, kEndWords.size()> frames;
  std::transform(kEndWords.begin(), kEndWords.end(), frames.begin(), synthetic_frame);
  return frames;
}();

const Frame* marker_of(bpf::WalkEnd end) {
  const auto index = static_cast<std::size_t>(end);
  return kEndWords.at(index).empty() ? nullptr : &kEndFrames.at(index);
}

profile::Attributes as_attributes(const proc::ProcessAttributes& pairs) {
  profile::Attributes attributes;
  for (const auto& [key, value] : pairs) attributes.emplace_back(key, value);
  return attributes;
}

profile::Sample synthetic(const Frame& frame, std::uint64_t samples) {
  return {.frames = {&frame, 1}, .value = samples};
}

// A stack whose addresses are the same may have got other names.
std::uint64_t key_of(std::uint64_t stack_id, std::span<const Frame> frames) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  for (const Frame& frame : frames) {
    stack_id = (stack_id ^ reinterpret_cast<std::uintptr_t>(frame.function)) * kOdd;
    stack_id = (stack_id ^ reinterpret_cast<std::uintptr_t>(frame.lines)) * kOdd;
    stack_id ^= stack_id >> 32U;
  }
  return stack_id;
}

}  // namespace

Gather::Gather(const GatherOptions& options)
    : options_(options),
      symbolizer_(proc::Options{.local_symbols = options.local_symbols, .lines = options.lines}),
      host_(as_attributes(proc::host_attributes())) {}

bool Gather::full() const {
  const std::size_t rows = flushing_ ? next_rows_.size() : rows_.size();
  const std::size_t stays = flushing_ ? span_times_.told_of_next() : span_times_.told();
  return rows >= options_.most_rows || stays >= options_.most_stays || unnamed_frames_ >= options_.most_frames;
}

void Gather::on_stack(const bpf::StackSeen& seen) {
  Stack& stack = stacks_[seen.stack_id];
  stack.seen_in = flush_;
  if (!stack.frames.empty()) return;
  unnamed_frames_ += seen.kernel.size() + seen.user.size();
  unnamed_.push_back({.stack_id = seen.stack_id,
                      .process = seen.process,
                      .image = seen.image,
                      .boottime_ns = seen.boottime_ns,
                      .kernel = {seen.kernel.begin(), seen.kernel.end()},
                      .user = {seen.user.begin(), seen.user.end()},
                      .end = seen.end});
}

void Gather::notice(std::uint64_t told_ns) {
  for (; noticed_ < unnamed_.size(); ++noticed_) {
    const Unnamed& raw = unnamed_[noticed_];
    if (raw.user.empty()) continue;
    symbolizer_.notice(raw.process, raw.image, raw.boottime_ns);
    if (raw.end == bpf::WalkEnd::kNoMapping) symbolizer_.look_again(raw.process, raw.image);
    unwinding_.look(raw.process);
  }
  symbolizer_.forget_told(told_ns);
}

void Gather::name(const Unnamed& raw) {
  Stack& stack = stacks_[raw.stack_id];
  if (!stack.frames.empty()) return;  // sent twice
  symbolizer_.resolve(raw.process, raw.image, raw.kernel, raw.user, stack.frames);
  if (stack.frames.empty()) stack.frames.push_back(kUnknownFrame);
  // Where the root was, so that stacks of its kind fold together.
  if (const Frame* marker = marker_of(raw.end)) stack.frames.push_back(*marker);
  stack.frames.shrink_to_fit();
  stack.key = key_of(raw.stack_id, stack.frames);
  frames_ += stack.frames.size();
  if (options_.lines) symbolizer_.want_lines(stack.frames);
}

void Gather::name_arrived(const std::function<bool()>& busy) {
  constexpr std::uint64_t kBusyNs = 10'000'000;
  std::uint64_t since_ns = boot_clock_ns();
  const std::vector<Unnamed> arrived = std::exchange(unnamed_, {});
  noticed_ = 0;
  unnamed_frames_ = 0;
  for (const Unnamed& raw : arrived) {
    if (boot_clock_ns() - since_ns > kBusyNs) {
      (void)busy();
      since_ns = boot_clock_ns();
    }
    name(raw);
  }
}

// At a flush and not as stacks come: a process that lives for milliseconds is looked at in time only if nobody's symbol
// table is being read meanwhile.
void Gather::name_stacks() {
  constexpr int kLinesMilliseconds = 3000;
  name_arrived(when_busy_);
  if (options_.lines) symbolizer_.find_lines(kLinesMilliseconds, when_busy_);
  // What came in between; this time nothing comes.
  name_arrived([] { return true; });
}

// Code that is compiled while it runs gives its place to other code, and may be known by name only after it was seen.
void Gather::rename_stacks() {
  for (const Row& row : rows_) {
    const auto place = stacks_.find(row.stack_id);
    if (place == stacks_.end()) continue;
    Stack& stack = place->second;
    const bool renamed = symbolizer_.rename(row.process, stack.names_version, stack.frames);
    const bool located = options_.lines && symbolizer_.fill_lines(stack.lines_version, stack.frames);
    if (renamed || located) {
      stack.key = key_of(row.stack_id, stack.frames);
    }
  }
}

void Gather::prepare_tables(std::span<const std::uint32_t> pids) {
  for (const std::uint32_t pid : pids) unwinding_.prepare(symbolizer_.keep_files_of(pid));
}

void Gather::on_fold(const bpf::FoldDelta& fold) {
  // A record that the ring refused at an earlier flush comes late, and counts here.
  const bool is_next = static_cast<std::int32_t>(fold.epoch - epoch_) > 0;
  std::vector<Row>& rows = is_next ? next_rows_ : rows_;
  for (const bpf::StackCount& stack : fold.stacks) {
    rows.push_back({.process = fold.process, .span = fold.span, .stack_id = stack.stack_id, .samples = stack.samples});
  }
  if (options_.span_times) span_times_.add(fold, is_next);
}

profile::ProcessSamples& Gather::process_of(const ProcessKey& key, Processes& processes) {
  auto [it, is_new] = processes.try_emplace(key);
  if (is_new) {
    it->second.resource = as_attributes(symbolizer_.attributes(key));
    it->second.resource.emplace_back("process.pid", std::int64_t{key.pid});
    it->second.resource.insert(it->second.resource.end(), host_.begin(), host_.end());
  }
  return it->second;
}

void Gather::add_rows(Processes& processes) {
  for (const Row& row : rows_) {
    profile::Sample sample{.span = row.span, .value = row.samples};
    const auto stack = stacks_.find(row.stack_id);
    if (stack != stacks_.end()) {
      sample.frames = stack->second.frames;
      sample.stack_key = stack->second.key;
    } else {
      sample.frames = {&kLostFrame, 1};
      frames_lost_ += row.samples;
    }
    process_of(row.process, processes).on_cpu.push_back(sample);
  }
}

void Gather::add_background(const bpf::Bank& bank, Processes& processes) {
  if (options_.background != Background::kCount) return;
  std::uint64_t others = bank.background;
  for (const auto& [key, ticks] : bank.by_process) {
    if (!std::binary_search(bank.carriers.begin(), bank.carriers.end(), key)) continue;
    others -= ticks;
    if (ticks > 0) process_of(key, processes).on_cpu.push_back(synthetic(kBackgroundFrame, ticks));
  }
  if (others == 0) return;
  profile::ProcessSamples& rest = processes[ProcessKey{}];
  rest.resource = host_;
  rest.on_cpu.push_back(synthetic(kBackgroundFrame, others));
}

void Gather::add_span_times(const bpf::Bank& bank, const WindowTime& time, Processes& processes) {
  for (auto& [key, spans] : span_times_.window(bank, time)) process_of(key, processes).span_times = std::move(spans);
}

// A million bytes are enough to know again: when it is full it starts anew, and a span that then goes on counts twice.
void Gather::count_spans() {
  constexpr std::size_t kMostKnown = 32768;
  for (const Row& row : rows_) {
    if (!row.span.valid()) continue;
    if (known_spans_.size() >= kMostKnown) known_spans_.clear();
    if (known_spans_.insert(hash_of(row.span)).second) ++spans_;
  }
}

profile::Window Gather::window(const bpf::Bank& bank, const WindowTime& time, std::uint32_t frequency_hz) {
  name_stacks();
  rename_stacks();
  count_spans();
  Processes processes;
  add_rows(processes);
  add_background(bank, processes);
  add_span_times(bank, time, processes);
  profile::Window window;
  window.start_unix_nano = time.start_unix_nano();
  window.duration_ns = time.duration_ns();
  window.frequency_hz = frequency_hz;
  window.accounting.ticks = bank.ticks;
  window.accounting.in_span = bank.in_span;
  window.accounting.background = bank.background;
  window.accounting.idle = bank.idle;
  window.accounting.filtered = bank.filtered;
  window.accounting.dropped = bank.dropped;
  window.accounting.missed = bank.missed;
  window.accounting.recursion_misses = bank.recursion_misses;
  window.accounting.unsampled = bank.unsampled;
  for (auto& [key, samples] : processes) {
    unwinding_.note_use(key);
    window.processes.push_back(std::move(samples));
  }
  return window;
}

void Gather::forget_stacks() {
  std::erase_if(stacks_, [this](const auto& entry) {
    if (entry.second.seen_in == flush_) return false;
    frames_ -= entry.second.frames.size();
    return true;
  });
}

void Gather::end_flush(bool forget) {
  rows_ = std::exchange(next_rows_, {});
  flushing_ = false;
  ++epoch_;
  if (forget) forget_stacks();
  symbolizer_.forget_gone();
  unwinding_.end_flush();
}

}  // namespace spanfold::app
