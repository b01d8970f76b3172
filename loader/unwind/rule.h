// SPDX-License-Identifier: Apache-2.0
// The words of base/unwind.h, as this room calls them.
#pragma once

#include "base/unwind.h"

namespace spanfold::unwind {

using spanfold::Cfa;
using spanfold::ReturnAddress;
using spanfold::SavedFramePointer;
using Rule = UnwindRule;
using Row = UnwindRow;
using Table = UnwindTable;

}  // namespace spanfold::unwind
