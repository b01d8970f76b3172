// SPDX-License-Identifier: Apache-2.0
// Takes rights away from this process for good.
#pragma once

namespace spanfold::proc {

// All descriptors but `keep` are closed, and the first three lead nowhere; memory, and with root the identity, are
// bounded; system calls that open, connect, start or change anything fail from here on; whoever forked us takes us
// along when it ends, however it does. False where the kernel refuses one of the last three.
[[nodiscard]] bool enter_sandbox(int keep);

}  // namespace spanfold::proc
