// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/utf8.h"
#include "report/render.h"

namespace spanfold::report {
namespace {

bool is_hex(char digit) { return (digit >= '0' && digit <= '9') || (digit >= 'a' && digit <= 'f'); }

// The escapes that to_valid_utf8() makes: bytes from 80 up, and the backslash, 5c.
bool is_recorder_escape(std::string_view text) {
  if (text.size() < 4 || !is_hex(text[2]) || !is_hex(text[3])) return false;
  return text[2] >= '8' || text.substr(2, 2) == "5c";
}

}  // namespace

std::string folded_frame(std::string_view name) {
  std::string text;
  for (std::size_t at = 0; at < name.size();) {
    const std::string_view rest = name.substr(at);
    const Rune rune = decode_rune(rest);
    const bool outer_space = rune.value == ' ' && (at == 0 || rest.size() == 1);
    const bool look_alike = rest.starts_with("\\x") && !is_recorder_escape(rest);
    if (rune.length == 0 || rune.value < 0x20 || rune.value == 0x7f || rune.value == ';' || outer_space || look_alike) {
      append_escaped_byte(text, static_cast<unsigned char>(rest.front()));
      ++at;
    } else {
      text += rest.substr(0, rune.length);
      at += rune.length;
    }
  }
  return text;
}

std::string render_folded(const Recording& recording, const Answer& answer) {
  const auto on_cpu = static_cast<std::size_t>(Kind::kOnCpu);
  bool only_on_cpu = true;
  for (std::size_t kind = 0; kind < kKindCount; ++kind) only_on_cpu &= kind == on_cpu || answer.cost[kind] == Cost{};

  std::map<std::uint32_t, std::uint64_t> counts;  // by stack
  for (const Row& row : answer.rows) {
    for (const StackCost& stack : row.stacks) counts[stack.stack] += only_on_cpu ? stack.cost.count : stack.cost.ns;
  }
  std::vector<std::string> names;
  for (const std::string& frame : recording.frames()) names.push_back(folded_frame(frame));
  std::vector<std::string> lines;
  for (const auto& [stack, count] : counts) {
    std::string line;
    const auto frames = recording.stack(stack);
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
      if (frame != frames.rbegin()) line += ';';
      line += names[*frame];
    }
    lines.push_back(fmt::format("{} {}\n", line, count));
  }
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

}  // namespace spanfold::report
