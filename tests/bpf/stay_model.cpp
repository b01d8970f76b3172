// SPDX-License-Identifier: Apache-2.0
#include "tests/bpf/stay_model.hpp"

#include <algorithm>
#include <set>

namespace bodytest {
namespace {

constexpr std::uint64_t kLingerNs = 100'000;  // bpf/abi.h
constexpr std::uint32_t kThreadRecords = 4;
constexpr std::uint32_t kBegins = SF_STAY_BEGIN_SEEN;

bool same(const sf_span& a, const sf_span& b) {
  return a.span_id == b.span_id && a.trace_id[0] == b.trace_id[0] && a.trace_id[1] == b.trace_id[1];
}

bool same_trace(const sf_span& a, const sf_span& b) {
  return a.trace_id[0] == b.trace_id[0] && a.trace_id[1] == b.trace_id[1];
}

bool is_none(const sf_span& span) { return span.span_id == 0; }

sf_span find(const std::map<std::uint64_t, sf_span>& spans, std::uint64_t thread) {
  const auto at = spans.find(thread);
  return at == spans.end() ? sf_span{} : at->second;
}

}  // namespace

// The entry of a thread, unless a dead one with the same ids left it behind.
sf_span StayModel::shown(std::uint64_t thread) const {
  const sf_span entry = find(entries_, thread);
  return same(entry, find(left_, thread)) ? sf_span{} : entry;
}

std::uint32_t StayModel::bucket_of(std::uint64_t thread) const { return sf_bucket(seed_, thread, sizes_.buckets - 1); }

bool StayModel::apply(const sf_step& step) {
  const std::uint64_t thread = step.pid_tgid;
  switch (step.op) {
    case STEP_HOOK: settle_change({step, SF_TELLER_HOOK, step.span, shown(thread), step.now_ns, step.own}); break;
    case STEP_MAP:
      if (is_none(step.span)) {
        entries_.erase(thread);
      } else {
        entries_[thread] = step.span;
      }
      break;
    case STEP_NOTE: on_note(step); break;
    case STEP_SAMPLE: on_sample(step); break;
    case STEP_EXIT: on_exit(step); break;
    default: on_sweep(step); break;
  }
  return complaint_ == nullptr;
}

// A thread that has no records has nothing that could end.
void StayModel::on_note(const sf_step& step) {
  const bool has_records =
      std::ranges::any_of(records_, [&](const Record& record) { return record.thread == step.pid_tgid; });
  if (is_none(step.span) && !has_records) {
    notes_.erase(step.pid_tgid);
    return;
  }
  notes_[step.pid_tgid] = {
      .ns = step.now_ns, .old = shown(step.pid_tgid), .now = step.span, .evicted = step.evicted != 0};
}

void StayModel::on_sample(const sf_step& step) {
  const sf_span now = shown(step.pid_tgid);
  const Event event{step, SF_TELLER_SAMPLE, now, {}, step.now_ns, step.own};
  settle(event);
  if (is_none(now) && !sizes_.background_stacks) return;
  if (step.result != 1) fail("a sample got lost");
  if (Record* own = find_own(event)) {
    ++own->samples[step.stack_id];
    own->sampled = true;
    if (own->state == State::kCurrent) own->seen_ns = step.now_ns;
    return;
  }
  ++told.samples[{.thread = step.pid_tgid,
                  .start_ns = step.process.start_ns,
                  .exec_id = step.process.exec_id,
                  .trace = now.trace_id[0],
                  .span = now.span_id,
                  .epoch = step.epoch}][step.stack_id];
}

void StayModel::on_exit(const sf_step& step) {
  settle_change({step, SF_TELLER_EXIT, {}, shown(step.pid_tgid), step.now_ns, step.own});
  notes_.erase(step.pid_tgid);
  if (entries_.contains(step.pid_tgid)) left_[step.pid_tgid] = entries_[step.pid_tgid];
}

bool StayModel::is_own(const Record& record, const Event& event) const {
  const sf_process& process = event.step.process;
  return event.teller != SF_TELLER_EXIT && record.thread == event.step.pid_tgid && same(record.span, event.span) &&
         record.process.exec_id == process.exec_id && record.process.start_ns == process.start_ns;
}

StayModel::Record* StayModel::find_own(const Event& event) {
  const auto at = std::ranges::find_if(records_, [&](const Record& record) { return is_own(record, event); });
  return at == records_.end() ? nullptr : &*at;
}

sf_span StayModel::current_of(std::uint64_t thread) const {
  const auto at = std::ranges::find_if(
      records_, [&](const Record& record) { return record.thread == thread && record.state == State::kCurrent; });
  return at == records_.end() ? sf_span{} : at->span;
}

bool StayModel::noted_end(const Record& record, std::uint64_t now_ns) const {
  const auto at = notes_.find(record.thread);
  if (at == notes_.end()) return false;
  const Note& note = at->second;
  return note.ns >= record.since_ns && note.ns <= now_ns && same(note.old, record.span) &&
         !same(note.now, record.span) && record.seen_ns <= note.ns + kNoteSlackNs;
}

// What is exact was told by a hook, and the map may not show it yet.
bool StayModel::is_pending(const Record& record, std::uint64_t now_ns) const {
  if (record.state == State::kCurrent) {
    return record.begun_ns != 0 && now_ns < record.begun_ns + kHoldNs && !noted_end(record, now_ns);
  }
  return (record.stay.flags & SF_STAY_END_SEEN) != 0 && now_ns < record.stay.last_ns + kHoldNs;
}

bool StayModel::is_held(const Record& record, const Event& event) const {
  return event.teller == SF_TELLER_SAMPLE && event.step.in_kernel != 0 && is_pending(record, event.now_ns);
}

void StayModel::cut(Record& record, std::uint64_t now_ns) {
  const std::uint64_t until_ns = std::max(now_ns, record.since_ns + 1);
  record.stay.on_thread_ns += until_ns - record.since_ns;
  record.stay.last_ns = record.since_ns = record.seen_ns = until_ns;
}

void StayModel::end(Record& record, std::uint64_t at_ns, bool exact) {
  cut(record, at_ns);
  record.state = State::kSuspended;
  if (exact) record.stay.flags |= SF_STAY_END_SEEN;
}

void StayModel::end_unseen(Record& record, std::uint64_t now_ns) {
  if (noted_end(record, now_ns)) {
    const Note& note = notes_[record.thread];
    end(record, note.ns, !note.evicted);
    return;
  }
  end(record, record.seen_ns, false);
  ++unseen_ends;
}

// It is no longer what its thread is in, or even gone. Whether the thread left its CPU matters until it is gone. What a
// sample finds gone from under another span may have been back meanwhile.
void StayModel::leave(const Event& event, Record& record) {
  if (record.switches != event.step.switches) record.stay.flags |= SF_STAY_SWITCHED;
  if (event.is_look() && record.state == State::kSuspended) {
    record.stay.flags &= ~static_cast<std::uint32_t>(SF_STAY_END_SEEN);
  }
}

void StayModel::emit(Record& record) {
  const bool stay = record.stay.on_thread_ns != 0;
  if (record.samples.empty() && !(stay && sizes_.span_times)) return;
  const Whose whose{.thread = record.thread,
                    .start_ns = record.process.start_ns,
                    .exec_id = record.process.exec_id,
                    .trace = record.span.trace_id[0],
                    .span = record.span.span_id,
                    .epoch = record.epoch};
  for (const auto& [stack, count] : record.samples) told.samples[whose][stack] += count;
  record.samples.clear();
  if (!stay) return;
  told.stays[whose].push_back(record.stay);
  // What follows is no begin.
  record.stay.on_thread_ns = 0;
  record.stay.first_ns = record.stay.last_ns;
  record.stay.flags &= ~static_cast<std::uint32_t>(SF_STAY_BEGIN_SEEN);
}

void StayModel::renew(Record& record, const sf_step& step, std::uint64_t until_ns) {
  if (record.epoch == step.epoch) return;
  if (record.state == State::kCurrent) cut(record, until_ns);
  emit(record);
  record.epoch = step.epoch;
}

void StayModel::close(Records::iterator at) {
  emit(*at);
  if (!at->sampled) ++unsampled;
  records_.erase(at);
}

void StayModel::settle_other(const Event& event, Records::iterator at) {
  Record& record = *at;
  if (is_held(record, event)) {
    held_ = true;
    return;
  }
  const bool exits = event.teller == SF_TELLER_EXIT;
  const bool leaves = exits || !same_trace(record.span, event.span);
  if (record.state == State::kCurrent || (leaves && record.state == State::kSuspended)) leave(event, record);
  if (record.state == State::kCurrent) {
    if (!event.is_look() && same(event.old, record.span)) {
      end(record, event.now_ns, true);
    } else {
      end_unseen(record, event.now_ns);
    }
  }
  if (leaves) {
    record.state = State::kGone;
    record.stay.flags |= SF_STAY_GONE;
  }
  const bool old_and_gone = record.state == State::kGone && record.epoch != event.step.epoch;
  if (exits || (leaves && !is_none(event.span)) || old_and_gone) {
    close(at);
  } else {
    renew(record, event.step, event.now_ns);
  }
}

void StayModel::begin(const Event& event, Record& record) {
  const std::uint64_t now_ns = event.now_ns;
  const auto note = notes_.find(record.thread);
  const bool noted = event.is_look() && note != notes_.end() && note->second.ns < now_ns &&
                     note->second.ns >= record.seen_ns && same(note->second.now, event.span);
  const std::uint64_t begin_ns = noted ? note->second.ns : now_ns;
  if (record.stay.on_thread_ns != 0 && sizes_.span_times && begin_ns >= record.stay.last_ns + kLingerNs) emit(record);
  const bool seen = noted || (event.teller == SF_TELLER_HOOK && !same(event.old, event.span));
  if (record.stay.on_thread_ns == 0) record.stay = {.first_ns = begin_ns, .flags = seen ? kBegins : 0};
  record.begun_ns = seen ? begin_ns : 0;
  record.stay.flags &= ~static_cast<std::uint32_t>(SF_STAY_END_SEEN | SF_STAY_GONE);
  record.state = State::kCurrent;
  record.since_ns = record.seen_ns = begin_ns;
  record.switches = event.step.switches;
}

void StayModel::settle_own(const Event& event, Record& own) {
  renew(own, event.step, event.now_ns);
  if (is_none(event.span) && event.teller == SF_TELLER_HOOK) return;
  if (own.state == State::kCurrent) return;
  if (held_ || is_held(own, event)) return;
  if (own.state == State::kSuspended) {
    for (Record& record : records_) {
      if (&record == &own || record.thread != own.thread || record.state == State::kCurrent) continue;
      if (record.seen_ns < own.seen_ns) continue;
      if (record.state == State::kSuspended) leave(event, record);
      record.state = State::kGone;
      record.stay.flags |= SF_STAY_GONE;
    }
  }
  begin(event, own);
}

// A fifth record of the thread takes the place of its oldest, of those that have left if there are any; another one a
// free place, or that of one who has left.
bool StayModel::make_room(const Event& event) {
  const std::uint64_t thread = event.step.pid_tgid;
  const auto before = [](const Record& one, const Record& other) {
    const bool gone = one.state == State::kGone;
    const bool other_gone = other.state == State::kGone;
    return gone == other_gone ? one.seen_ns < other.seen_ns : gone;
  };
  auto oldest = records_.end();
  std::uint32_t count = 0;
  for (auto at = records_.begin(); at != records_.end(); ++at) {
    if (at->thread != thread) continue;
    ++count;
    if (oldest == records_.end() || before(*at, *oldest)) oldest = at;
  }
  if (count >= kThreadRecords) close(oldest);
  std::set<std::uint32_t> free;
  for (std::uint32_t way = 0; way < SF_BUCKET_WAYS; ++way) free.insert(bucket_of(thread) * SF_BUCKET_WAYS + way);
  for (const Record& record : records_) free.erase(record.place);
  const std::uint32_t place = bucket_of(thread) * SF_BUCKET_WAYS + event.own - 1;
  if (!free.empty()) {
    if (event.own == 0 || !free.contains(place)) fail("there was a free place, and it was not taken");
    return true;
  }
  const auto idle = [&](const Record& record) {
    return record.place / SF_BUCKET_WAYS == bucket_of(thread) && record.state == State::kGone;
  };
  if (event.own == 0) {
    if (std::ranges::any_of(records_, idle)) fail("one who had left kept its place");
    return false;
  }
  const auto taken = std::ranges::find_if(records_, [&](const Record& record) { return record.place == place; });
  if (taken == records_.end() || !idle(*taken)) {
    fail("a place was taken from a record that had not left");
    return false;
  }
  close(taken);
  return true;
}

void StayModel::open(const Event& event) {
  if (!make_room(event)) {
    ++crowded;
    return;
  }
  const sf_step& step = event.step;
  Record record{.thread = step.pid_tgid,
                .process = step.process,
                .span = event.span,
                .place = bucket_of(step.pid_tgid) * SF_BUCKET_WAYS + event.own - 1,
                .epoch = step.epoch};
  begin(event, record);
  records_.push_back(record);
}

// Where the map has held another span until now than the one that is known, that is settled first.
void StayModel::settle_change(const Event& event) {
  if (!same(current_of(event.step.pid_tgid), event.old)) {
    settle({event.step, SF_TELLER_LOOK, event.old, {}, event.now_ns - 1, event.step.caught_up});
  }
  settle(event);
}

void StayModel::settle(const Event& event) {
  held_ = false;
  for (auto at = records_.begin(); at != records_.end();) {
    const auto here = at++;
    if (here->thread == event.step.pid_tgid && !is_own(*here, event)) settle_other(event, here);
  }
  const bool wanted = !is_none(event.span) || (sizes_.background_stacks && event.teller == SF_TELLER_SAMPLE);
  if (Record* own = find_own(event)) {
    settle_own(event, *own);
    if (event.own != own->place % SF_BUCKET_WAYS + 1) fail("the thread's own record was not found");
  } else if (wanted && !held_) {
    open(event);
  } else if (event.own != 0 && event.teller != SF_TELLER_EXIT) {
    fail("a record came from nowhere");
  }
  drop_note(event);
}

// A note tells what happened since the thread's last event. A sample may come before the map shows what is noted.
void StayModel::drop_note(const Event& event) {
  const auto at = notes_.find(event.step.pid_tgid);
  if (at == notes_.end()) return;
  const Note& note = at->second;
  const bool early = same(event.span, note.old) && event.now_ns < note.ns + kNoteSlackNs;
  const bool kept = held_ && same(event.span, note.now);
  if (!event.is_look() || !(early || kept)) notes_.erase(at);
}

void StayModel::sweep_one(const sf_step& step, Records::iterator at) {
  Record& record = *at;
  const sf_span now = shown(record.thread);
  const bool back = same(record.span, now);
  const bool pending = is_pending(record, step.now_ns);
  bool carried = same_trace(record.span, now);
  if (record.state == State::kCurrent) {
    if (back) record.seen_ns = step.now_ns;
    if (!back && !pending) end_unseen(record, step.now_ns);
    carried = carried || pending;
  } else {
    if (record.state == State::kGone) carried = back && pending;
    if (!carried && record.epoch == step.epoch && step.now_ns < record.stay.last_ns + kLingerNs) return;
    // A way back was missed, or the end of what covered it.
    if (!carried && (back || record.state == State::kSuspended)) {
      record.stay.flags &= ~static_cast<std::uint32_t>(SF_STAY_END_SEEN);
    }
  }
  if (carried) {
    renew(record, step, record.seen_ns);
    return;
  }
  record.stay.flags |= SF_STAY_GONE;
  close(at);
}

void StayModel::on_sweep(const sf_step& step) {
  if (step.result != 0) fail("the sweep left something behind");
  for (auto at = records_.begin(); at != records_.end();) {
    const auto here = at++;
    sweep_one(step, here);
  }
}

}  // namespace bodytest
