// SPDX-License-Identifier: Apache-2.0
// Symbol names as people write them: C++ (Itanium ABI) and Rust (legacy and v0) by libiberty, within bounds.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace spanfold::proc {

constexpr std::size_t kMaxShownNameBytes = 2048;  // longer ones are cut and end in "…"
// The parser recurses on the length of its input; within this, it needs less than 3 MB of stack (tested).
constexpr std::size_t kMaxMangledBytes = 4096;

// "_Z10parse_dateRKSs" → "parse_date(std::string const&)"; Rust names without their hash; libstdc++'s
// std::__cxx11::basic_string<char, …> reads std::string, as it is written in source. Names that are not mangled, too
// long or malformed come back as they are. Never longer than kMaxShownNameBytes. Not for use by two threads at once.
[[nodiscard]] std::string demangle(std::string_view name);

}  // namespace spanfold::proc
