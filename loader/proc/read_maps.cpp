// SPDX-License-Identifier: Apache-2.0
#include "proc/read_maps.h"

#include <cstddef>
#include <string_view>

#include "proc/procfs.h"

namespace spanfold::proc {

std::optional<std::vector<MapRange>> read_maps(int process_folder) {
  constexpr std::size_t kMaxMapsBytes = 256UL << 20;  // 65,530 mappings of files with the longest names
  MapsParser parser;
  if (!read_pieces_at(process_folder, "maps", kMaxMapsBytes, [&](std::string_view piece) { parser.feed(piece); })) {
    return {};
  }
  return parser.finish();
}

}  // namespace spanfold::proc
