// SPDX-License-Identifier: Apache-2.0
// Asks a file everything that a recording asks of a mapped one, and holds the answers to what the file says.
#pragma once

#include <memory>

#include "fuzz/fuzz.h"
#include "proc/binary.h"
#include "proc/debug_file.h"
#include "proc/elf_file.h"
#include "proc/symbol_table.h"

namespace spanfold::fuzz {

// True where `name` stands in `bytes`, or its beginning where it is a stub's; or where packed symbols may hold it.
inline bool says(std::string_view bytes, std::string_view name) {
  constexpr std::string_view kPacked(
      "\xfd"
      "7zXZ",
      5);
  if (name.ends_with("@plt") && contains(bytes, name.substr(0, name.size() - 4))) return true;
  return contains(bytes, name) || contains(bytes, kPacked);
}

// Ranges are in order and disjoint, and each has the name that some file says.
inline void check_table(const proc::SymbolTable& table, std::string_view bytes) {
  constexpr std::size_t kMostNames = 64;
  for (std::size_t i = 0; i < table.size(); ++i) {
    check(table.find(table.start(i)) == i, "a range holds its own beginning");
    check(i == 0 || table.start(i - 1) < table.start(i), "ranges are in order");
    if (i < kMostNames) check(says(bytes, table.name(i)), "a name stands in the file");
  }
}

inline void ask(const std::shared_ptr<const proc::ByteSource>& source, std::string_view bytes) {
  proc::Interner interner;
  proc::SymbolCache cache;
  proc::Binary binary(source, "hostile", "", interner, cache);
  check(binary.build_ids().gnu.size() <= 128 && binary.build_ids().go.size() <= 256, "ids are bounded");
  constexpr std::uint64_t kOffsets = 32;
  const std::uint64_t step = bytes.size() / kOffsets + 1;
  for (std::uint64_t offset = 0; offset < bytes.size() + step; offset += step) {
    const Frame frame = binary.frame_at(offset, true);
    check(frame.mapping != nullptr, "there is a mapping");
    check(frame.function == nullptr || !frame.function->empty(), "a name is not empty");
    (void)binary.function_beginning_at(offset);
  }
}

}  // namespace spanfold::fuzz
