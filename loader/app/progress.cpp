// SPDX-License-Identifier: Apache-2.0
#include "app/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string>

#include "base/file.h"
#include "base/log.h"
#include "profile/accounting.h"

namespace spanfold::app {
namespace {

void write_raw(const std::string& text) { (void)write_all(STDERR_FILENO, text, "standard error"); }

std::string human(std::uint64_t bytes) {
  constexpr std::uint64_t kStep = 1024;
  if (bytes < kStep) return fmt::format("{} B", bytes);
  if (bytes < kStep * kStep) return fmt::format("{} KiB", (bytes + kStep / 2) / kStep);
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (kStep * kStep));
}

}  // namespace

Progress::Progress() : terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::begin(const RecordOptions& options) const {
  if (!terminal_) return;
  log::info("recording at {} Hz to {}; {}", options.frequency_hz, options.output,
            options.command.empty() ? "Ctrl-C ends" : "ends with the command");
}

void Progress::show(const profile::Accounting& total, std::uint64_t spans) {
  if (!terminal_ || !log::enabled(log::Level::kInfo)) return;
  shown_ = true;
  write_raw(fmt::format("\r\x1b[K{} samples in {} spans, {} outside, {} dropped", total.in_span, spans,
                        total.background, total.dropped_total()));
}

void Progress::end() const {
  if (shown_) write_raw("\r\x1b[K");
}

void Progress::close(const profile::Accounting& total, std::uint64_t spans, const profile::OutputSummary& written) {
  if (!log::enabled(log::Level::kInfo)) return;
  write_raw(fmt::format("{}; {} spans, {} files, {}\n", profile::describe(total), spans, written.files,
                        human(written.bytes)));
}

}  // namespace spanfold::app
