// SPDX-License-Identifier: Apache-2.0
// The accounting out of the attributes of a Profile.
#pragma once

#include "report/recording.h"
#include "report/tables.h"

namespace spanfold::report {

// Adds what `attribute` says of the accounting, or of the frequency, to `into`; any other says nothing.
void add_accounting(const Tables::Attribute& attribute, Recording& into);

}  // namespace spanfold::report
