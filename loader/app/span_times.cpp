// SPDX-License-Identifier: Apache-2.0
#include "app/span_times.h"

#include <algorithm>
#include <utility>

#include "app/span_hash.h"

namespace spanfold::app {

std::size_t SpanTimes::KeyHash::operator()(const Key& key) const {
  return hash_of(key.span) ^ (key.process.start_boottime_ns + key.process.pid) * 0xb504f333f9de6485ULL;
}

void SpanTimes::add(const bpf::FoldDelta& fold, bool next) {
  // Work outside of spans, or more slots of a stay that was told.
  if (!fold.span.valid() || (fold.on_thread_ns == 0 && !fold.gone)) return;
  Gathered& gathered = next ? next_ : now_;
  const Key key{.process = fold.process, .span = fold.span};
  auto known = gathered.spans.find(key);
  if (known == gathered.spans.end()) {
    if (gathered.told >= most_told_) {
      ++gathered.left_out;
      return;
    }
    known = gathered.spans.try_emplace(key).first;
  }
  ++gathered.told;
  add_piece(fold, known->second);
  note_thread(fold, known->second);
  known->second.switched |= fold.switched;
  known->second.first_ns = std::min(known->second.first_ns, fold.first_boottime_ns);
}

// A stay that was told of before, and whose end was seen now, is a mark where it ends: it has the least of lengths.
void SpanTimes::add_piece(const bpf::FoldDelta& fold, Times& times) {
  if (fold.on_thread_ns == 0 && !fold.end_seen) return;
  const std::uint64_t last = std::max(fold.last_boottime_ns, fold.first_boottime_ns + fold.on_thread_ns);
  const std::uint64_t first = fold.on_thread_ns == 0 ? last - profile::kEndMarkNs : fold.first_boottime_ns;
  times.stays.add(
      {.begin_unix_nano = first, .end_unix_nano = last, .length_ns = std::max(fold.on_thread_ns, profile::kEndMarkNs)});
}

// A thread's deltas come in order, but for those that a full ring kept back.
void SpanTimes::note_thread(const bpf::FoldDelta& fold, Times& times) {
  auto thread = std::find_if(times.threads.rbegin(), times.threads.rend(),
                             [&fold](const Thread& each) { return each.tid == fold.tid; });
  if (thread == times.threads.rend()) {
    times.threads.push_back({.tid = fold.tid});
    thread = times.threads.rbegin();
  }
  if (fold.last_boottime_ns < thread->last_ns) return;
  thread->last_ns = fold.last_boottime_ns;
  thread->ended = fold.gone && fold.end_seen;
}

std::map<ProcessKey, std::vector<profile::SpanTime>> SpanTimes::window(const bpf::Bank& bank, const WindowTime& time) {
  if (bank.blind) blind_until_ns_ = time.end_ns();
  std::map<ProcessKey, std::vector<profile::SpanTime>> processes;
  for (const auto& [key, times] : now_.spans) {
    profile::SpanTime span{.span = key.span, .stays = times.stays.list()};
    if (span.stays.empty()) continue;
    span.ended =
        !bank.blind && !(times.switched && times.first_ns < blind_until_ns_) &&
        std::all_of(times.threads.begin(), times.threads.end(), [](const Thread& each) { return each.ended; }) &&
        !std::binary_search(bank.carried.begin(), bank.carried.end(), key.span);
    for (profile::Stay& stay : span.stays) stay = time.cut(stay.begin_unix_nano, stay.length_ns);
    std::sort(span.stays.begin(), span.stays.end());
    processes[key.process].push_back(std::move(span));
  }
  for (auto& [process, spans] : processes) {
    std::sort(spans.begin(), spans.end(),
              [](const profile::SpanTime& left, const profile::SpanTime& right) { return left.span < right.span; });
  }
  left_out_ = now_.left_out;
  now_ = std::exchange(next_, {});
  return processes;
}

}  // namespace spanfold::app
