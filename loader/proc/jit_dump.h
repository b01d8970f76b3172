// SPDX-License-Identifier: Apache-2.0
// The binary form of a JIT compiler's log, jit-PID.dump (tools/perf/Documentation/jitdump-specification.txt of the
// Linux sources): a header, then records. Only where code lies and what it is called counts here; the code itself, its
// lines and its unwinding tables are passed over.
#pragma once

#include <unordered_map>

#include "proc/jit_reader.h"

namespace spanfold::proc {

class JitDump final : public JitReader {
 public:
  // `inner_pid`: who must have written it, in its own words. A process that forks leaves its child the mapping of the
  // file, but what the file says from then on is of the parent.
  explicit JitDump(std::uint32_t inner_pid) : inner_pid_(inner_pid) {}

  [[nodiscard]] std::optional<std::uint64_t> take(std::string_view piece, std::uint32_t offset,
                                                  JitTable& table) override;
  [[nodiscard]] std::uint32_t named_at(const JitCode& code) const override;
  [[nodiscard]] std::string_view name(std::string_view text, const JitCode& code) const override;

 private:
  // Each costs a search through what is not settled yet, whether or not that finds anything. No producer is known that
  // moves code at all.
  static constexpr std::uint32_t kMaxMoves = 256;

  [[nodiscard]] std::optional<std::uint64_t> take_header(std::string_view piece) const;
  static void take_load(std::string_view body, std::uint32_t offset, JitTable& table);
  void take_move(std::string_view body, std::uint32_t offset, JitTable& table);

  std::uint32_t inner_pid_;
  std::uint32_t moves_ = 0;
  std::unordered_map<std::uint32_t, std::uint32_t> loads_;  // of moved code: record of the move → of the load
};

}  // namespace spanfold::proc
