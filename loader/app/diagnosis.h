// SPDX-License-Identifier: Apache-2.0
// Says, once and with the remedy, why samples are in no span where they should be: a context map that nobody fills,
// that stands still, that holds other threads, or that lacks some of the busy processes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"
#include "bpf/context_map.h"
#include "bpf/events.h"
#include "bpf/recorder.h"

namespace spanfold::app {

// How long something must last, and how many samples it must concern, before it is said.
inline constexpr std::uint64_t kPatienceNs = 10'000'000'000;
inline constexpr std::uint64_t kEnoughSamples = 100;

// Whether the map stands still while there is work. Needs no more looks once it was seen to change.
class StillMap {
 public:
  explicit StillMap(std::uint64_t patience_ns) : patience_ns_(patience_ns) {}
  [[nodiscard]] bool wants_look(std::uint64_t now_ns) const;
  // `busy`: samples of work so far, in spans and outside. True once: it stood still for long enough.
  [[nodiscard]] bool look(const bpf::ContextGlimpse& glimpse, std::uint64_t now_ns, std::uint64_t busy);

 private:
  struct Sight {
    bpf::ContextGlimpse glimpse;
    std::uint64_t at_ns = 0;
    std::uint64_t busy = 0;
  };
  std::uint64_t patience_ns_;
  std::optional<Sight> first_;
  std::uint64_t looked_ns_ = 0;
  bool done_ = false;
};

// Busy processes without a span, while others have theirs.
class Unserved {
 public:
  void add(const bpf::Bank& bank);
  // Those with enough samples, the busiest first; none where nobody carried a span.
  [[nodiscard]] std::vector<ProcessKey> list() const;

 private:
  struct Process {
    std::uint64_t samples = 0;
    bool carried = false;
  };
  std::map<ProcessKey, Process> processes_;
  bool any_carried_ = false;
};

class Diagnosis {
 public:
  explicit Diagnosis(std::string context_path, std::uint64_t patience_ns = kPatienceNs)
      : path_(std::move(context_path)), patience_ns_(patience_ns), still_(patience_ns) {}

  // After each flush: its bank, and the counts so far of ticks that could have been in a span. `last`: speak even of
  // few.
  void look(const bpf::Recorder& recorder, const bpf::Bank& bank, std::uint64_t in_span, std::uint64_t background,
            bool last);

 private:
  void look_for_spans(const bpf::Recorder& recorder, std::uint64_t in_span, std::uint64_t background, bool last);
  void look_for_change(std::uint64_t now_ns, std::uint64_t busy);
  void look_for_unserved(const bpf::Bank& bank, std::uint64_t now_ns, bool last);

  std::string path_;
  std::uint64_t patience_ns_;
  std::uint64_t begin_ns_ = 0;  // of the first look
  bool spans_said_ = false;
  StillMap still_;
  std::optional<Unserved> unserved_{std::in_place};  // none: done
};

}  // namespace spanfold::app
