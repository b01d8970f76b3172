// SPDX-License-Identifier: Apache-2.0
// The rate in force: measures what recording costs, asks the governor, and changes the recorder's rate between windows.
#pragma once

#include <cstdint>
#include <string>

#include "app/overhead.h"
#include "bpf/recorder.h"

namespace spanfold::app {

class Rate {
 public:
  explicit Rate(const Overhead::Options& options) : overhead_(options), frequency_hz_(options.frequency_hz) {}

  [[nodiscard]] std::uint32_t frequency_hz() const { return frequency_hz_; }
  // What this process takes counts from here on.
  void begin();
  // Where another rate is wanted: sets it, and says why. Right before a flush, so that each window is of one rate.
  void change(bpf::Recorder& recorder);
  // A window of `wall_ns` at `frequency_hz` is over, and its flush with it.
  void judge(const bpf::Bank& bank, std::uint64_t wall_ns, std::uint32_t frequency_hz);

 private:
  Overhead overhead_;
  std::uint32_t frequency_hz_;  // in force
  std::string words_;           // why the next one is another
  std::uint64_t cpu_ns_ = 0;    // of this process, at the last judgement
};

}  // namespace spanfold::app
