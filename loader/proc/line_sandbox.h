// SPDX-License-Identifier: Apache-2.0
// Takes rights away from this process for good.
#pragma once

namespace spanfold::proc {

// All descriptors but the first three and `keep` are closed; memory, and with root the identity, are bounded; system
// calls that open, connect, start or change anything fail from here on. False where the kernel refuses the last.
[[nodiscard]] bool enter_sandbox(int keep);

}  // namespace spanfold::proc
