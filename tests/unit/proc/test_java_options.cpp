// SPDX-License-Identifier: Apache-2.0
// Which Java VMs keep frame pointers, by their command lines and environments.
#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "proc/java_options.h"

using namespace std::string_view_literals;

namespace spanfold::proc {

TEST_CASE("java: frame pointers are kept where an option says so") {
  CHECK(!keeps_java_frame_pointers("", ""));
  CHECK(!keeps_java_frame_pointers("java\0-jar\0a.jar\0"sv, "HOME=/\0"sv));
  CHECK(keeps_java_frame_pointers("java\0-XX:+PreserveFramePointer\0-jar\0a.jar\0"sv, ""));
  CHECK(keeps_java_frame_pointers("java\0-Xint\0Main"sv, ""));
  CHECK(!keeps_java_frame_pointers("java\0-XX:+PreserveFramePointers\0-XX:PreserveFramePointer\0Main\0"sv, ""));
}

TEST_CASE("java: the last word counts, in the order in which the VM reads") {
  constexpr auto kOn = "-XX:+PreserveFramePointer"sv;
  CHECK(!keeps_java_frame_pointers("java\0-XX:+PreserveFramePointer\0-XX:-PreserveFramePointer\0Main\0"sv, ""));
  CHECK(keeps_java_frame_pointers("java\0Main\0"sv, "A=b\0JAVA_TOOL_OPTIONS=-Xmx1g -XX:+PreserveFramePointer\0"sv));
  CHECK(keeps_java_frame_pointers("java\0Main\0"sv, "JDK_JAVA_OPTIONS=-XX:+PreserveFramePointer\0"sv));
  CHECK(!keeps_java_frame_pointers("java\0-XX:-PreserveFramePointer\0Main\0"sv,
                                   "JAVA_TOOL_OPTIONS=-XX:+PreserveFramePointer\0"sv));
  CHECK(keeps_java_frame_pointers("java\0-XX:-PreserveFramePointer\0Main\0"sv, "_JAVA_OPTIONS=" + std::string(kOn)));
  CHECK(!keeps_java_frame_pointers("java\0Main\0"sv, "MY_JAVA_TOOL_OPTIONS=-XX:+PreserveFramePointer\0"sv));
}

}  // namespace spanfold::proc
