// SPDX-License-Identifier: Apache-2.0
// Pointers as call-frame information writes them. Source: Linux Standard Base Core, 10.5.1 (DWARF exception header
// encoding).
#pragma once

#include <cstdint>
#include <optional>

#include "unwind/cursor.h"
#include "unwind/frame_section.h"

namespace spanfold::unwind {

constexpr std::uint8_t kAbsolutePointer = 0x00;
constexpr std::uint8_t kNoPointer = 0xff;
constexpr std::uint8_t kPointerFormat = 0x0f;

// Passes over a pointer; what it points to, or none where nobody can know: it counts from a base that the file does not
// name, or stands in memory of the program (DW_EH_PE_indirect).
// `cursor` is on the bytes of `section`; `address_bytes` is 4 or 8.
[[nodiscard]] std::optional<std::uint64_t> read_pointer(Cursor& cursor, std::uint8_t encoding,
                                                        std::uint8_t address_bytes, const FrameSection& section);

}  // namespace spanfold::unwind
