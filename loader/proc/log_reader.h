// SPDX-License-Identifier: Apache-2.0
// Gives processes the mappings that the log knows of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "proc/binary_cache.h"
#include "proc/file_finder.h"
#include "proc/interner.h"
#include "proc/mapping_log.h"
#include "proc/process.h"

namespace spanfold::proc {

class LogReader {
 public:
  explicit LogReader(Shared& shared) : shared_(shared), finder_(shared.binaries) {}

  [[nodiscard]] MappingLog& log() { return log_; }

  // Brings `process` to what the log says that it had mapped at `seen_ns`, when it ran code of its own and showed
  // `image`; nothing where the log does not know. Opens its files.
  void bring_up(Process& process, const ImageTag& image, std::uint64_t seen_ns);

 private:
  [[nodiscard]] MappingLog::Found look_up(const ProcessKey& key, const ImageTag& image, std::uint64_t seen_ns);
  void adopt(std::uint32_t pid, const ImageTag& image);
  void add_region(const LoggedMapping& mapping, std::span<const std::uint32_t> pids, Process::Told& told);

  Shared& shared_;
  FileFinder finder_;
  MappingLog log_;
};

}  // namespace spanfold::proc
