// SPDX-License-Identifier: Apache-2.0
// Unpacks a zlib stream that somebody else wrote.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "proc/byte_source.h"

namespace spanfold::unwind {

// The `unpacked_bytes` bytes that the stream at `offset` begins with; it ends within `packed_bytes`. None where it is
// damaged or shorter. The caller bounds `unpacked_bytes`.
[[nodiscard]] std::optional<std::string> inflate_part(const proc::ByteSource& source, std::uint64_t offset,
                                                      std::uint64_t packed_bytes, std::uint64_t unpacked_bytes);

}  // namespace spanfold::unwind
