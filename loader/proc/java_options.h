// SPDX-License-Identifier: Apache-2.0
// Whether the code that a Java VM (HotSpot) compiles keeps frame pointers, by the options that it was started with. By
// default the frame pointer is a register like others: whoever follows it leaves callers out, and does not notice.
#pragma once

#include <string_view>

namespace spanfold::proc {

// As /proc has them, parts end with NUL. -XX:+PreserveFramePointer, the last word counts; or -Xint, since what
// interprets keeps them always. Options in files (@file, -XX:Flags) are not read: then the answer is no.
[[nodiscard]] bool keeps_java_frame_pointers(std::string_view command_line, std::string_view environment);

}  // namespace spanfold::proc
