// SPDX-License-Identifier: Apache-2.0
// The log: lines on standard error. Results go to standard output and never through here.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>

namespace spanfold::log {

// error: the run failed; warning: the run goes on but something is not as the user expects; info: what a user wants to
// know once (the default shows it); debug: for whoever looks into spanfold itself (-v).
enum class Level : std::uint8_t { kError, kWarning, kInfo, kDebug };

// The most detailed level that is shown. Default kInfo; -q: kWarning, -v: kDebug.
void set_level(Level level);
[[nodiscard]] bool enabled(Level level);

// Writes "spanfold: warning: text\n" in one write (no word for info). Control bytes in text, and bytes that are no
// UTF-8, are shown as \xNN.
void write(Level level, std::string_view text);

template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kError, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::kWarning)) write(Level::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::kInfo)) write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::kDebug)) write(Level::kDebug, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace spanfold::log
