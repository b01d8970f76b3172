// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4) of a few kilobytes, and FNV-1a of 128 bits: what file ids are made of. No secrets here, so no
// claim of constant time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace spanfold::proc {

[[nodiscard]] std::array<std::uint8_t, 32> sha256(std::string_view bytes);
[[nodiscard]] std::array<std::uint8_t, 16> fnv1a_128(std::string_view bytes);
// Lower-case hex.
[[nodiscard]] std::string to_hex(std::string_view bytes);

}  // namespace spanfold::proc
