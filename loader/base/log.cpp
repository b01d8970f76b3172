// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <unistd.h>

#include <string>

namespace spanfold::log {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): one log a process, as there is one standard error
Level g_level = Level::kInfo;

std::string_view word(Level level) {
  switch (level) {
    case Level::kError: return "error: ";
    case Level::kWarning: return "warning: ";
    case Level::kInfo: return "";
    case Level::kDebug: return "debug: ";
  }
  return "";
}

}  // namespace

void set_level(Level level) { g_level = level; }
bool enabled(Level level) { return level <= g_level; }

void write(Level level, std::string_view text) {
  if (!enabled(level)) return;
  std::string line = fmt::format("spanfold: {}", word(level));
  for (const char byte : text) {
    const auto value = static_cast<unsigned char>(byte);
    if (value < 0x20 || value == 0x7f) {
      line += fmt::format("\\x{:02x}", value);
    } else {
      line += byte;
    }
  }
  line += '\n';
  // A log that cannot be written has nowhere to complain.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace spanfold::log
