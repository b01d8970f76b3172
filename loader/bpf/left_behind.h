// SPDX-License-Identifier: Apache-2.0
// Entries of the context map whose threads are gone: a crashed writer left them, and whoever gets the thread's number
// next is not in that span.
#pragma once

#include <cstddef>

namespace spanfold::bpf {

// Looks at the entries of `context_fd` and puts those of threads that do not run any more into `left_behind_fd`, a map
// of the same keys. Returns how many there are. Reads without touching the LRU order.
std::size_t mark_left_behind(int context_fd, int left_behind_fd);

}  // namespace spanfold::bpf
