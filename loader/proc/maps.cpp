// SPDX-License-Identifier: Apache-2.0
#include "proc/maps.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace spanfold::proc {
namespace {

// Reads a number at the front of `text` and the separator behind it, and removes both.
template <typename Number>
bool take_number(std::string_view& text, int base, char separator, Number& value) {
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, value, base);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(next - text.data()));
  // The name, and the spaces before it, may be missing.
  if (text.empty()) return separator == ' ';
  if (text.front() != separator) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::optional<MapRange> parse_map_line(std::string_view line) {
  MapRange range;
  unsigned major = 0;
  unsigned minor = 0;
  if (!take_number(line, 16, '-', range.start) || !take_number(line, 16, ' ', range.end)) return {};
  if (range.end <= range.start) return {};
  constexpr std::size_t kPermissions = 4;  // "r-xp"
  if (line.size() <= kPermissions || line[kPermissions] != ' ') return {};
  range.executable = line[2] == 'x';
  line.remove_prefix(kPermissions + 1);
  if (!take_number(line, 16, ' ', range.file_offset) || !take_number(line, 16, ':', major) ||
      !take_number(line, 16, ' ', minor) || !take_number(line, 10, ' ', range.inode)) {
    return {};
  }
  range.device = makedev(major, minor);
  // Padding ends before the name, which may itself begin with anything but a space: paths begin with '/'.
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  range.name = line;
  return range;
}

bool MapRange::is_memory() const {
  if (!has_file() && (name.empty() || name == "[heap]" || name.starts_with("[anon"))) return true;
  constexpr std::array<std::string_view, 4> kNames = {"/memfd:", "/dev/zero", "/SYSV", "//anon"};
  return std::any_of(kNames.begin(), kNames.end(), [&](auto beginning) { return name.starts_with(beginning); });
}

bool MapRange::is_jit_dump() const {
  const std::string_view base = std::string_view(name).substr(name.rfind('/') + 1);
  return has_file() && base.starts_with("jit-") && (base.ends_with(".dump") || base.ends_with(".dump (deleted)"));
}

void MapsParser::take(std::string_view line) {
  if (ranges_.size() >= kMaxRanges) return;
  auto range = parse_map_line(line);
  if (range && range->executable) ranges_.push_back(std::move(*range));
}

void MapsParser::feed(std::string_view piece) {
  while (!piece.empty()) {
    const std::size_t newline = piece.find('\n');
    const std::string_view part = piece.substr(0, newline);
    if (rest_.size() + part.size() > kMaxLineBytes) skipping_ = true;
    if (newline == std::string_view::npos) {
      if (!skipping_) rest_ += part;
      return;
    }
    if (!skipping_) {
      if (rest_.empty()) {
        take(part);
      } else {
        rest_ += part;
        take(rest_);
      }
    }
    rest_.clear();
    skipping_ = false;
    piece.remove_prefix(newline + 1);
  }
}

std::vector<MapRange> MapsParser::finish() {
  if (!skipping_ && !rest_.empty()) take(rest_);
  std::vector<MapRange> ordered;
  ordered.reserve(ranges_.size());
  for (MapRange& range : ranges_) {
    while (!ordered.empty() && ordered.back().end > range.start) ordered.pop_back();
    ordered.push_back(std::move(range));
  }
  return ordered;
}

}  // namespace spanfold::proc
