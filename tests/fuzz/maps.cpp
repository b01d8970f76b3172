// SPDX-License-Identifier: Apache-2.0
// /proc/PID/maps, whole and in pieces; and the other small files of /proc that have parsers: stat, status.
#include "proc/maps.h"

#include <tuple>

#include "fuzz/fuzz.h"
#include "proc/identity.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spanfold;
  fuzz::Input input(data, size);
  const auto seed = input.take<std::uint32_t>();
  const std::string_view text = input.rest();
  proc::MapsParser whole;
  whole.feed(text);
  proc::MapsParser parts;
  fuzz::in_pieces(text, seed, 61, [&](std::string_view piece) { parts.feed(piece); });
  const auto ranges = whole.finish();
  const auto same = parts.finish();
  fuzz::check(ranges.size() == same.size(), "pieces say what the whole says");
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const proc::MapRange& range = ranges[i];
    const auto key = [](const proc::MapRange& each) {
      return std::tie(each.start, each.end, each.file_offset, each.device, each.inode, each.name);
    };
    fuzz::check(key(range) == key(same[i]), "pieces say what the whole says");
    fuzz::check(range.executable && range.start < range.end, "a range holds code");
    fuzz::check(range.start >= end, "ranges are in order and disjoint");
    end = range.end;
    fuzz::check(fuzz::contains(text, range.name), "a name stands in the file");
    fuzz::check(!range.is_memory() || !range.is_jit_dump() || range.name.starts_with("/"), "memory is no dump");
  }
  (void)proc::parse_stat(text);
  (void)proc::parse_status(text);
  return 0;
}
