// SPDX-License-Identifier: Apache-2.0
// When each span was on its threads, of one window at a time: pieces of stays come in as the kernel side tells of them,
// and a list for each process goes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "app/window_time.h"
#include "base/frame.h"
#include "base/process.h"
#include "bpf/events.h"
#include "profile/model.h"
#include "profile/stays.h"

namespace spanfold::app {

class SpanTimes {
 public:
  // A window that has been told of stays `most_told` times takes no further spans: theirs are left out, and counted.
  explicit SpanTimes(std::size_t most_told = std::size_t{1} << 17) : most_told_(most_told) {}

  // What a delta tells of a stay, if it does. `next`: it is of the window after the present one.
  void add(const bpf::FoldDelta& fold, bool next);
  // Ends the present window: what was in it, each process's spans sorted. The next one becomes the present one.
  [[nodiscard]] std::map<ProcessKey, std::vector<profile::SpanTime>> window(const bpf::Bank& bank,
                                                                            const WindowTime& time);
  // Times that the present window has been told of a stay: its memory grows with them.
  [[nodiscard]] std::size_t told() const { return now_.told; }
  [[nodiscard]] std::size_t told_of_next() const { return next_.told; }
  // Pieces of stays that the window that ended last has no room for.
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  struct Key {
    ProcessKey process;
    SpanContext span;
    auto operator<=>(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  // What was heard last of a thread that carried the span.
  struct Thread {
    std::uint32_t tid = 0;
    bool ended = false;  // it no longer carries the span, and the end was seen
    std::uint64_t last_ns = 0;
  };
  struct Times {
    profile::Stays stays;  // in the programs' time
    std::vector<Thread> threads;
    bool switched = false;                // a thread left its CPU during a stay: a hook that was missed may hide there
    std::uint64_t first_ns = UINT64_MAX;  // from when on it may hide
  };
  struct Gathered {
    std::unordered_map<Key, Times, KeyHash> spans;
    std::size_t told = 0;
    std::uint64_t left_out = 0;
  };

  static void add_piece(const bpf::FoldDelta& fold, Times& times);
  static void note_thread(const bpf::FoldDelta& fold, Times& times);

  std::size_t most_told_;
  Gathered now_;
  Gathered next_;
  std::uint64_t left_out_ = 0;
  std::uint64_t blind_until_ns_ = 0;  // by the programs' clock: hooks were missed before, none since
};

}  // namespace spanfold::app
