// SPDX-License-Identifier: Apache-2.0
// `spanfold report`: OTLP profiles to answers. Reads what `record` or any other OTLP profiles producer wrote.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace spanfold::report {

// As on the command line; run() checks them.
struct Options {
  std::vector<std::string> paths;   // files and folders; none: spanfold.otlp
  std::string by = "span";          // span, trace, service, process, function, stack
  std::string kind = "all";         // on_cpu, blocked, runnable, all
  std::string format = "text";      // text, json, folded
  std::string output = "-";         // -: standard output
  std::optional<std::int64_t> top;  // rows, 1 or more; default 20 for text, all for the formats that programs read
  // Filters; several of one kind: any of them. A function is its full name, its name without parameters, or the last
  // part of that.
  std::vector<std::string> spans;   // 16 hex digits
  std::vector<std::string> traces;  // 32 hex digits
  std::vector<std::int64_t> pids;
  std::vector<std::string> services;
  std::vector<std::string> functions;
};

// Reads, groups, writes. Nothing is written unless all files that were named could be read. Errors: Failure::kUsage for
// options that make no sense, kFailed for files that cannot be read or written.
[[nodiscard]] Status run(const Options& options);

}  // namespace spanfold::report
