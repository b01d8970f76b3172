// SPDX-License-Identifier: Apache-2.0
// Recognises the few DWARF expressions that a rule can say. None is evaluated.
#pragma once

#include <string_view>

#include "unwind/state.h"

namespace spanfold::unwind {

// Of DW_CFA_def_cfa_expression.
[[nodiscard]] FrameAddress frame_of_expression(std::string_view expression, const Machine& machine);

// Of DW_CFA_expression: its value is an address. It begins with the frame address on DWARF's stack.
[[nodiscard]] Place place_of_expression(std::string_view expression);

}  // namespace spanfold::unwind
