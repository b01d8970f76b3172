// SPDX-License-Identifier: Apache-2.0
// The version, in the one place.
#pragma once

namespace spanfold::app {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace spanfold::app
