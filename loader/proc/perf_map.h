// SPDX-License-Identifier: Apache-2.0
// The text form of a JIT compiler's log, /tmp/perf-PID.map: lines "START SIZE name", both hexadecimal
// (tools/perf/Documentation/jit-interface.txt of the Linux sources); the JVM writes 0x before them.
#pragma once

#include "proc/jit_reader.h"

namespace spanfold::proc {

// Lines of another form, and those that cover nothing, are skipped.
class PerfMap final : public JitReader {
 public:
  [[nodiscard]] std::optional<std::uint64_t> take(std::string_view piece, std::uint32_t offset,
                                                  JitTable& table) override;
  [[nodiscard]] std::uint32_t named_at(const JitCode& code) const override { return code.where; }
  [[nodiscard]] std::string_view name(std::string_view text, const JitCode& code) const override;

 private:
  bool skipping_ = false;  // the rest of a line that is too long
};

}  // namespace spanfold::proc
