// SPDX-License-Identifier: Apache-2.0
// What goes between the symbolizer and the process that reads debug information for it. Both ends are of one program,
// yet the reader handles hostile files: what it answers is checked like a file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spanfold::proc {

// One place in source code, as debug information names it.
struct RawLine {
  std::string function;  // linkage name where there is one; empty: none
  std::string file;      // empty: not known
  std::uint32_t line = 0;
  auto operator<=>(const RawLine&) const = default;
};
// Of one address: innermost inlined function first. Empty: nothing is known.
using RawLines = std::vector<RawLine>;

constexpr std::size_t kMostLineAddresses = 1024;      // in one question
constexpr std::size_t kMostInlined = 64;              // of one address
constexpr std::size_t kMostLineTextBytes = 4096;      // of a name or a path
constexpr std::size_t kMostAnswerBytes = 16UL << 20;  // beyond, the rest of the addresses has no lines

[[nodiscard]] std::string encode_lines(const std::vector<RawLines>& answer);
// None where `bytes` is no answer to a question about `addresses` addresses.
[[nodiscard]] std::optional<std::vector<RawLines>> decode_lines(std::string_view bytes, std::size_t addresses);

}  // namespace spanfold::proc
