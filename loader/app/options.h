// SPDX-License-Identifier: Apache-2.0
// The command line of `spanfold record`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "bpf/recorder.h"

namespace spanfold::app {

enum class Background : std::uint8_t { kCount, kStacks, kNone };

struct RecordOptions {
  std::string output = "spanfold.otlp";
  std::uint64_t max_disk_bytes = 0;  // 0: no limit
  std::uint32_t frequency_hz = 99;
  std::uint64_t duration_ns = 0;  // 0: no limit
  std::vector<std::uint32_t> pids;
  std::vector<std::uint32_t> tids;
  std::vector<int> cpus;  // empty: all
  std::vector<std::string> cgroups;
  Background background = Background::kCount;
  std::string context_path;
  bpf::Lifecycle lifecycle = bpf::Lifecycle::kAuto;
  bool span_times = false;
  std::uint64_t max_span_age_ns = 0;  // 0: no limit
  double max_overhead_percent = 1;    // of one CPU, programs and loader together; 0: no limit
  std::uint64_t flush_ns = 5'000'000'000;
  bool local_symbols = true;
  bool lines = false;
  std::uint32_t max_frames = bpf::kMostUserFrames;  // of the user half of a stack
  log::Level level = log::Level::kInfo;
  std::vector<std::string> command;  // empty: everything on the host, narrowed by the filters
};

// Parses the words after `record`. Help is printed to standard output, and `help` is then true. Errors are usage
// errors.
struct ParsedRecord {
  RecordOptions options;
  bool help = false;
};
[[nodiscard]] Result<ParsedRecord> parse_record(const std::vector<std::string>& words);

}  // namespace spanfold::app
