// SPDX-License-Identifier: Apache-2.0
// A hash of a span's ids, which are random already.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "base/frame.h"

namespace spanfold::app {

[[nodiscard]] inline std::uint64_t hash_of(const SpanContext& span) {
  std::array<std::uint64_t, 3> words{};
  std::memcpy(words.data(), span.trace_id.data(), span.trace_id.size());
  std::memcpy(&words[2], span.span_id.data(), span.span_id.size());
  return (words[0] ^ words[2]) * 0x9e3779b97f4a7c15ULL ^ words[1];
}

}  // namespace spanfold::app
