// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <unistd.h>

#include <string>

#include "base/utf8.h"

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
  // On a terminal, over whatever line is being renewed there.
  static const bool kTerminal = isatty(STDERR_FILENO) == 1;
  std::string line = fmt::format("{}spanfold: {}", kTerminal ? "\r\x1b[K" : "", word(level));
  for (std::string_view rest = text; !rest.empty();) {
    const Rune rune = decode_rune(rest);
    const bool control = rune.value < 0x20 || rune.value == 0x7f;
    if (rune.length == 0 || control) {
      append_escaped_byte(line, static_cast<unsigned char>(rest.front()));
    } else {
      line += rest.substr(0, rune.length);
    }
    rest.remove_prefix(rune.length == 0 ? 1 : rune.length);
  }
  line += '\n';
  // A log that cannot be written has nowhere to complain.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace spanfold::log
