// SPDX-License-Identifier: Apache-2.0
// Bytes out of the ring to the loader's own words.
#pragma once

#include <cstddef>

#include "bpf/abi.h"
#include "bpf/events.h"

namespace spanfold::bpf {

// Ids as their bytes stand in the context map.
[[nodiscard]] SpanContext context_of(const sf_span& span);

// Hands one message to `sink`; false: it is of no known type or shorter than it says.
[[nodiscard]] bool dispatch_message(const void* data, std::size_t bytes, Sink& sink);

}  // namespace spanfold::bpf
