// SPDX-License-Identifier: Apache-2.0
// What this host and this process allow, asked before anything is loaded, so that the first message is the right one.
#pragma once

#include "base/result.h"

namespace spanfold::bpf {

// Fails with exit code 3 where the effective capabilities cannot load BPF programs or open clock events.
[[nodiscard]] Status check_capabilities();

// False inside a pid namespace of its own: the kernel's pids are then not the ones that /proc shows here.
[[nodiscard]] bool in_host_pid_namespace();

}  // namespace spanfold::bpf
