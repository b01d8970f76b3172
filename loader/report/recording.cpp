// SPDX-License-Identifier: Apache-2.0
#include "report/recording.h"

#include <algorithm>
#include <random>
#include <utility>

namespace spanfold::report {
namespace {

profile::Hash128 random_seed() {
  std::random_device random;
  const auto word = [&] { return static_cast<std::uint64_t>(random()) << 32 | random(); };
  return {word(), word()};
}

// The number `table` has for `key`, or the next one, for which `add` makes the thing itself.
template <typename Add>
std::uint32_t number(profile::RowTable& table, profile::Hash128 key, Add add) {
  if (const std::uint32_t row = table.find(key)) return row - 1;
  const auto added = static_cast<std::uint32_t>(table.size());
  table.insert(key, added + 1);
  add();
  return added;
}

std::string_view as_text(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Recording::Recording() : seed_(random_seed()) { add_span({}); }

std::uint32_t Recording::add_frame(std::string_view name) {
  return number(frame_rows_, hasher().bytes(name).result(), [&] { frames_.emplace_back(name); });
}

std::uint32_t Recording::add_stack(std::span<const std::uint32_t> frames) {
  profile::Hasher hash = hasher().word(frames.size());
  for (const std::uint32_t frame : frames) hash.word(frame);
  return number(stack_rows_, hash.result(), [&] {
    stacks_.push_back({stack_frames_.size(), static_cast<std::uint32_t>(frames.size())});
    stack_frames_.insert(stack_frames_.end(), frames.begin(), frames.end());
  });
}

std::uint32_t Recording::add_span(const SpanContext& span) {
  const profile::Hash128 key = hasher().bytes(as_text(span.trace_id)).bytes(as_text(span.span_id)).result();
  return number(span_rows_, key, [&] { spans_.push_back(span); });
}

std::uint32_t Recording::add_process(const Process& process) {
  const profile::Hash128 key = hasher()
                                   .word(process.pid.has_value() ? 1 : 0)
                                   .word(static_cast<std::uint64_t>(process.pid.value_or(0)))
                                   .bytes(process.service)
                                   .bytes(process.executable)
                                   .bytes(process.host)
                                   .bytes(process.container)
                                   .result();
  return number(process_rows_, key, [&] { processes_.push_back(process); });
}

void Recording::add_window(std::uint64_t start_unix_nano, std::uint64_t duration_ns) {
  if (start_unix_nano == 0) return;
  const std::uint64_t end = start_unix_nano + std::min(duration_ns, UINT64_MAX - start_unix_nano);
  start_unix_nano_ = start_unix_nano_ == 0 ? start_unix_nano : std::min(start_unix_nano_, start_unix_nano);
  end_unix_nano_ = std::max(end_unix_nano_, end);
}

void Recording::add_frequency(std::uint32_t hz) {
  if (frequency_hz_ && *frequency_hz_ != hz) mixed_ = true;
  frequency_hz_ = hz;
}

std::optional<double> Recording::achieved_hz() const {
  if (!frequency_hz() || !accounting) return std::nullopt;
  const auto seen = static_cast<double>(accounting->ticks);
  const double owed = seen + static_cast<double>(accounting->missed);
  if (owed == 0) return std::nullopt;
  return seen / owed * *frequency_hz();
}

Recording::Mark Recording::mark() const {
  return {.entries = entries.size(),
          .stays = stays.size(),
          .skipped_types = skipped_types.size(),
          .accounting = accounting,
          .start_unix_nano = start_unix_nano_,
          .end_unix_nano = end_unix_nano_,
          .frequency_hz = frequency_hz_,
          .mixed = mixed_};
}

void Recording::take_back(Mark mark) {
  entries.resize(mark.entries);
  stays.resize(mark.stays);
  skipped_types.resize(mark.skipped_types);
  accounting = std::move(mark.accounting);
  start_unix_nano_ = mark.start_unix_nano;
  end_unix_nano_ = mark.end_unix_nano;
  frequency_hz_ = mark.frequency_hz;
  mixed_ = mark.mixed;
}

std::span<const std::uint32_t> Recording::stack(std::uint32_t id) const {
  return std::span(stack_frames_).subspan(stacks_[id].begin, stacks_[id].size);
}

}  // namespace spanfold::report
