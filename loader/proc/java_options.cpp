// SPDX-License-Identifier: Apache-2.0
#include "proc/java_options.h"

#include <cstddef>
#include <string>

namespace spanfold::proc {
namespace {

// Calls `take` for each part between separators.
template <typename Take>
void each_part(std::string_view text, std::string_view separators, Take take) {
  while (!text.empty()) {
    const std::size_t end = text.find_first_of(separators);
    take(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

constexpr std::string_view kNul("\0", 1);

}  // namespace

bool keeps_java_frame_pointers(std::string_view command_line, std::string_view environment) {
  bool kept = false;
  const auto read = [&](std::string_view option) {
    if (option == "-XX:+PreserveFramePointer" || option == "-Xint") kept = true;
    if (option == "-XX:-PreserveFramePointer") kept = false;
  };
  const auto read_variable = [&](std::string_view name) {
    each_part(environment, kNul, [&](std::string_view entry) {
      if (entry.starts_with(name)) each_part(entry.substr(name.size()), " \t\n", read);
    });
  };
  // In the order in which the VM reads them.
  read_variable("JAVA_TOOL_OPTIONS=");
  read_variable("JDK_JAVA_OPTIONS=");
  each_part(command_line, kNul, read);
  read_variable("_JAVA_OPTIONS=");
  return kept;
}

}  // namespace spanfold::proc
