// SPDX-License-Identifier: Apache-2.0
// What a recording shows on standard error: a line that is renewed on a terminal, and the closing line everywhere.
#pragma once

#include <cstdint>

#include "app/options.h"
#include "profile/model.h"
#include "profile/output.h"

namespace spanfold::app {

class Progress {
 public:
  Progress();
  // On a terminal: what is recorded, and how to end it.
  void begin(const RecordOptions& options) const;
  void show(const profile::Accounting& total, std::uint64_t spans);
  // Leaves the renewed line.
  void end() const;
  // "ticks 4950 = in span 3100 + …; missed 3; 212 spans, 3 files, 41 KiB"
  static void close(const profile::Accounting& total, std::uint64_t spans, const profile::OutputSummary& written);

 private:
  bool terminal_;
  bool shown_ = false;
};

}  // namespace spanfold::app
