// SPDX-License-Identifier: Apache-2.0
// The pinned context map that OBI writes: found, adopted with its own shape, or created with OBI's. Never deleted.
#pragma once

#include <cstdint>
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

// True when the map holds no entry. Looks at keys only, so that the LRU order stays as it is.
[[nodiscard]] bool context_map_empty(int fd);

}  // namespace spanfold::bpf
