// SPDX-License-Identifier: Apache-2.0
// /proc/PID/maps: what a process may execute, and where that comes from.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spanfold::proc {

// One line, as the kernel prints it (Documentation/filesystems/proc.rst, "maps").
struct MapRange {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;
  dev_t device = 0;
  std::uint64_t inode = 0;  // 0: no file behind it
  bool executable = false;
  // As printed: newlines of a file's name stand as \012, a file that has no name any more ends in " (deleted)";
  // "[vdso]", "[heap]", "[anon:…]" for some that have no file; may be empty.
  std::string name;

  [[nodiscard]] bool has_file() const { return inode != 0; }
  [[nodiscard]] bool is_vdso() const { return inode == 0 && name == "[vdso]"; }
  // Memory that is nothing but memory, whatever the kernel keeps it in: what is executed there was generated, unless
  // it is an ELF file.
  [[nodiscard]] bool is_memory() const;
  // The file that a JIT compiler maps in order to say where it is.
  [[nodiscard]] bool is_jit_dump() const;
};

// None where the line does not have the kernel's form.
[[nodiscard]] std::optional<MapRange> parse_map_line(std::string_view line);

// Collects executable ranges from text that arrives in pieces, cut anywhere. Lines that make no sense are skipped.
class MapsParser {
 public:
  void feed(std::string_view piece);
  // The ranges in order of address, without overlaps (the file is no snapshot: a mapping that moves while it is read
  // may show twice; the later line wins). Ends the parser's life.
  [[nodiscard]] std::vector<MapRange> finish();

 private:
  static constexpr std::size_t kMaxLineBytes = 20UL * 1024;  // PATH_MAX, each byte escaped to four, and the columns
  static constexpr std::size_t kMaxRanges = 65'536;          // vm.max_map_count's default
  void take(std::string_view line);

  std::string rest_;
  bool skipping_ = false;  // the rest of a line that is too long
  std::vector<MapRange> ranges_;
};

}  // namespace spanfold::proc
