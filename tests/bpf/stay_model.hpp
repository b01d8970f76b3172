// SPDX-License-Identifier: Apache-2.0
// What records of threads in spans must come to, said naively: no buckets of eight, no messages, no atomics. One thing
// is taken from the run under test, and only checked: which place a new record got, where several would have been
// right.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <optional>

#include "tests/bpf/steps.hpp"

namespace bodytest {

class StayModel {
 public:
  StayModel(const Sizes& sizes, std::uint64_t seed) : sizes_(sizes), seed_(seed) {}

  // What a step does. False: its results are not what they may be, and complaint() says why.
  [[nodiscard]] bool apply(const sf_step& step);
  [[nodiscard]] const char* complaint() const { return complaint_; }

  // What messages must have told since this was last taken.
  Told told;
  std::uint64_t unsampled = 0;
  std::uint64_t unseen_ends = 0;
  std::uint64_t crowded = 0;
  [[nodiscard]] std::size_t records_in_use() const { return records_.size(); }

 private:
  enum class State { kCurrent, kSuspended, kGone };

  struct Record {
    std::uint64_t thread = 0;
    sf_process process{};
    sf_span span{};
    std::uint32_t place = 0;
    std::uint32_t epoch = 0;
    State state = State::kCurrent;
    Stay stay;                   // what is to be told; on_thread_ns is 0: nothing
    std::uint64_t since_ns = 0;  // while it is current: begin of what is not yet in on_thread_ns
    std::uint64_t seen_ns = 0;   // when it was last known to be on the thread
    std::uint64_t begun_ns = 0;  // when a hook told that it came, first or again; 0: none did
    std::uint32_t switches = 0;  // of the thread, at the begin of the stay
    bool sampled = false;
    std::map<std::uint64_t, std::uint64_t> samples;
  };
  using Records = std::list<Record>;

  struct Note {
    std::uint64_t ns = 0;
    sf_span old{};
    sf_span now{};
    bool evicted = false;
  };

  // An event of a thread, and what it says that the thread carries from then on.
  struct Event {
    const sf_step& step;
    sf_teller teller;
    sf_span span;
    sf_span old;  // what the map held until then
    std::uint64_t now_ns;
    std::uint32_t own;  // as the run under test has it: 1 + the way of the thread's record, 0: none

    [[nodiscard]] bool is_look() const { return teller == SF_TELLER_SAMPLE || teller == SF_TELLER_LOOK; }
  };

  void on_note(const sf_step& step);
  void on_sample(const sf_step& step);
  void on_exit(const sf_step& step);
  void on_sweep(const sf_step& step);
  void settle_change(const Event& event);
  void settle(const Event& event);
  void settle_other(const Event& event, Records::iterator at);
  void settle_own(const Event& event, Record& own);
  void open(const Event& event);
  bool make_room(const Event& event);
  void begin(const Event& event, Record& record);
  void sweep_one(const sf_step& step, Records::iterator at);
  void drop_note(const Event& event);

  [[nodiscard]] sf_span shown(std::uint64_t thread) const;
  [[nodiscard]] Record* find_own(const Event& event);
  [[nodiscard]] bool is_own(const Record& record, const Event& event) const;
  [[nodiscard]] std::uint32_t bucket_of(std::uint64_t thread) const;
  [[nodiscard]] sf_span current_of(std::uint64_t thread) const;
  [[nodiscard]] bool noted_end(const Record& record, std::uint64_t now_ns) const;
  [[nodiscard]] bool is_pending(const Record& record, std::uint64_t now_ns) const;
  [[nodiscard]] bool is_held(const Record& record, const Event& event) const;
  static void end(Record& record, std::uint64_t at_ns, bool exact);
  void end_unseen(Record& record, std::uint64_t now_ns);
  static void cut(Record& record, std::uint64_t now_ns);
  static void leave(const Event& event, Record& record);
  void emit(Record& record);
  void renew(Record& record, const sf_step& step, std::uint64_t until_ns);
  void close(Records::iterator at);
  void fail(const char* why) { complaint_ = complaint_ ? complaint_ : why; }

  Sizes sizes_;
  std::uint64_t seed_;
  Records records_;
  std::map<std::uint64_t, sf_span> entries_;  // the context map
  std::map<std::uint64_t, sf_span> left_;     // entries that outlived their threads
  std::map<std::uint64_t, Note> notes_;
  bool held_ = false;  // in the settling at hand: a hook has acted too lately for a sample to correct it
  const char* complaint_ = nullptr;
};

}  // namespace bodytest
