// SPDX-License-Identifier: Apache-2.0
// Options as the user wrote them, checked and turned into values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "report/recording.h"
#include "report/report.h"

namespace spanfold::report {

enum class By : std::uint8_t { kSpan, kTrace, kService, kProcess, kFunction, kStack };
enum class Format : std::uint8_t { kText, kJson, kFolded };

struct Query {
  By by = By::kSpan;
  Format format = Format::kText;
  std::vector<Kind> kinds;  // those to show, each once
  std::size_t top = 0;      // rows; never 0
  std::vector<SpanId> spans;
  std::vector<TraceId> traces;
  std::vector<std::int64_t> pids;
  std::vector<std::string> services;
  std::vector<std::string> functions;
};

[[nodiscard]] Result<Query> parse_query(const Options& options);

// "span", "function", …
[[nodiscard]] std::string_view by_name(By by);

}  // namespace spanfold::report
