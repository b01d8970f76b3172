// SPDX-License-Identifier: Apache-2.0
// Reads one form of a JIT compiler's log out of bytes that arrive in pieces. Files are jit_log.h's affair.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "proc/jit_table.h"

namespace spanfold::proc {

class JitReader {
 public:
  virtual ~JitReader() = default;

  // Takes the whole entries that begin in `piece`, which stands at `offset` in the file and is at least kMaxEntryBytes
  // long unless the file ends before. Gives how many bytes are done with: what is left comes again with the next piece;
  // more than the piece has are passed over. None where the file makes no sense from here on.
  [[nodiscard]] virtual std::optional<std::uint64_t> take(std::string_view piece, std::uint32_t offset,
                                                          JitTable& table) = 0;

  // Where in the file the name of `code` is to be found.
  [[nodiscard]] virtual std::uint32_t named_at(const JitCode& code) const = 0;
  // The name in the entry at the front of `text`; empty where that entry does not say what `code` says: the file has
  // been written over since.
  [[nodiscard]] virtual std::string_view name(std::string_view text, const JitCode& code) const = 0;

  // Of what counts in an entry; longer ones are passed over.
  static constexpr std::size_t kMaxEntryBytes = 16UL * 1024;
};

}  // namespace spanfold::proc
