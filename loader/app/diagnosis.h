// SPDX-License-Identifier: Apache-2.0
// Says, once, why no sample is in a span: the most common fault of a set-up is a context map that nobody fills.
#pragma once

#include <cstdint>
#include <string>

#include "bpf/recorder.h"

namespace spanfold::app {

class Diagnosis {
 public:
  explicit Diagnosis(std::string context_path) : path_(std::move(context_path)) {}

  // After each flush, with the counts so far of ticks that could have been in a span. `last`: speak even of few.
  void look(const bpf::Recorder& recorder, std::uint64_t in_span, std::uint64_t background, bool last);

 private:
  std::string path_;
  bool said_ = false;
};

}  // namespace spanfold::app
