// SPDX-License-Identifier: Apache-2.0
// What this kernel takes: asked with programs of a few instructions, never told from its version.
#pragma once

namespace spanfold::bpf {

// Atomics that return a value (x86-64 5.12, arm64 5.18). Without them the programs take records by another way.
[[nodiscard]] bool has_fetch_atomics();

// 0 where fentry programs may be loaded, else the error number: hardened kernels refuse them, others lack them.
[[nodiscard]] int fentry_refusal();

}  // namespace spanfold::bpf
