// SPDX-License-Identifier: Apache-2.0
// The pinned context map that OBI writes: found, adopted with its own shape, or created with OBI's. Never deleted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace spanfold::bpf {

// OBI's shape of the map: LRU hash, u64 pid_tgid -> trace id and span id.
inline constexpr std::uint32_t kContextKeyBytes = 8;
inline constexpr std::uint32_t kContextValueBytes = 24;  // at least; fields may be appended
inline constexpr std::uint32_t kContextEntries = 16384;

struct ContextMap {
  Fd fd;  // none: `problem` says why, and the run goes on without spans
  std::uint32_t id = 0;
  bool created = false;  // by us: nobody was there before
  std::string problem;
};

// Where the map is pinned when nobody says otherwise: OTEL_EBPF_BPF_FS_PATH or /sys/fs/bpf, then otel/traces_ctx_v1.
[[nodiscard]] std::string default_context_path();

// Opens the pin at `path`, or creates it with OBI's shape. A pin of a shape that cannot serve gives a ContextMap
// without fd and with a `problem`; errors are for what the host refuses. Mounts a bpffs where the path's default root
// has none.
[[nodiscard]] Result<ContextMap> open_context_map(const std::string& path);

// What a map holds, in short: equal contents give equal glimpses, in whatever order they lie.
struct ContextGlimpse {
  std::uint64_t entries = 0;
  std::uint64_t sum = 0;  // of a hash of each entry
  bool operator==(const ContextGlimpse&) const = default;
};

// Looks at no more than `most_entries`, in batches, which leave the LRU order as it is. None where nothing is pinned at
// `path`, or a map that is none of contexts, or where the kernel reads no batches.
[[nodiscard]] std::optional<ContextGlimpse> glimpse_context_map(const std::string& path,
                                                                std::uint64_t most_entries = kContextEntries);

// True when the map holds no entry. Looks at keys only, so that the LRU order stays as it is.
[[nodiscard]] bool context_map_empty(int fd);

}  // namespace spanfold::bpf
