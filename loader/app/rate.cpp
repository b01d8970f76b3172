// SPDX-License-Identifier: Apache-2.0
#include "app/rate.h"

#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace spanfold::app {

void Rate::begin() { cpu_ns_ = process_cpu_ns(); }

void Rate::change(bpf::Recorder& recorder) {
  const std::uint32_t wanted_hz = overhead_.wanted_hz();
  if (wanted_hz == frequency_hz_) return;
  if (Status set = recorder.set_frequency(wanted_hz); !set) {
    log::warning("{}", set.error().message());
    return;
  }
  frequency_hz_ = wanted_hz;
  log::info("{}", words_);
}

void Rate::judge(const bpf::Bank& bank, std::uint64_t wall_ns, std::uint32_t frequency_hz) {
  const std::uint64_t cpu_ns = process_cpu_ns();
  const Cost cost{.wall_ns = wall_ns, .bpf_ns = bank.spent_ns, .loader_ns = cpu_ns - std::exchange(cpu_ns_, cpu_ns)};
  log::debug("spent {} us in BPF and {} us in the loader, of {} ms", cost.bpf_ns / 1000, cost.loader_ns / 1000,
             cost.wall_ns / 1'000'000);
  const Overhead::Verdict verdict = overhead_.look(cost, frequency_hz);
  if (verdict.words.empty()) return;
  // A new rate waits for the next flush, and what is said of it too.
  if (verdict.frequency_hz == frequency_hz_) {
    log::info("{}", verdict.words);
  } else {
    words_ = verdict.words;
  }
}

}  // namespace spanfold::app
