// SPDX-License-Identifier: Apache-2.0
#include "proc/perf_map.h"

#include <charconv>
#include <limits>

namespace spanfold::proc {
namespace {

struct Line {
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
  std::string_view name;
};

bool take_hex(std::string_view& text, std::uint64_t& value) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  const std::size_t spaces = text.find_first_not_of(' ');
  if (spaces == 0 || spaces == std::string_view::npos) return false;
  text.remove_prefix(spaces);
  return true;
}

std::optional<Line> parse(std::string_view text) {
  Line line;
  if (!take_hex(text, line.start) || !take_hex(text, line.bytes)) return {};
  line.name = text;
  const bool sound = line.bytes > 0 && line.bytes <= std::numeric_limits<std::uint32_t>::max() &&
                     line.start < std::numeric_limits<std::uint64_t>::max() - line.bytes;
  return sound ? std::optional(line) : std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> PerfMap::take(std::string_view piece, std::uint32_t offset, JitTable& table) {
  std::size_t taken = 0;
  while (taken < piece.size()) {
    const std::string_view rest = piece.substr(taken);
    const std::size_t newline = rest.find('\n');
    if (newline == std::string_view::npos) {
      skipping_ = skipping_ || rest.size() >= kMaxEntryBytes;
      return skipping_ ? piece.size() : taken;
    }
    const auto line = skipping_ ? std::nullopt : parse(rest.substr(0, newline));
    if (line) {
      table.add({line->start, static_cast<std::uint32_t>(line->bytes), static_cast<std::uint32_t>(offset + taken)});
    }
    skipping_ = false;
    taken += newline + 1;
  }
  return taken;
}

std::string_view PerfMap::name(std::string_view text, const JitCode& code) const {
  const std::size_t newline = text.find('\n');
  if (newline == std::string_view::npos) return {};
  const auto line = parse(text.substr(0, newline));
  const bool covers = line && line->start <= code.start && code.start + code.bytes <= line->start + line->bytes;
  return covers ? line->name : std::string_view();
}

}  // namespace spanfold::proc
