// SPDX-License-Identifier: Apache-2.0
// Symbols that were split off into a file of their own. It is looked for in the root of the process, where GDB would:
// by build id under /usr/lib/debug/.build-id, and by .gnu_debuglink next to the file, in .debug there, and under
// /usr/lib/debug. A wrong name is worse than none: what is not certainly of the file is not used.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proc/byte_source.h"
#include "proc/elf_file.h"

namespace spanfold::proc {

// What .gnu_debuglink says: a file's name, without a folder, and the CRC-32 of all its bytes.
struct DebugLink {
  std::string name;
  std::uint32_t crc = 0;
};
[[nodiscard]] std::optional<DebugLink> read_debug_link(const ElfFile& elf, const ByteSource& source);

// A file that stands where the debug file of another should, opened while that could be reached.
struct DebugCandidate {
  std::shared_ptr<const ByteSource> source;
  std::optional<std::uint32_t> crc;  // that it must have; none: its build id must be the other's
};

// True where the file says which line of source each address is of.
[[nodiscard]] bool has_debug_lines(const ElfFile& elf);

// Opens the candidates for `elf`, which `path` leads to in the root of the process with the open folder
// `process_folder`. Looks at them no further. Empty where the file has its own symbols and, if they are wanted,
// `lines`.
[[nodiscard]] std::vector<DebugCandidate> open_debug_candidates(int process_folder, const std::string& path,
                                                                const ElfFile& elf, const ByteSource& source,
                                                                bool lines = false);

// The first that belongs to `elf` for certain: the CRC is right where one is asked for, both build ids are equal where
// both have one (and the CRC is asked for, or both have one), and code lies at the same addresses. Null: none.
[[nodiscard]] std::shared_ptr<const ByteSource> choose_debug_file(const std::vector<DebugCandidate>& candidates,
                                                                  const ElfFile& elf);

}  // namespace spanfold::proc
