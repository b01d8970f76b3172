// SPDX-License-Identifier: Apache-2.0
// OTLP profiles bytes (opentelemetry-proto 1.10+, profiles.v1development.ProfilesData) into a Recording.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "report/recording.h"

namespace spanfold::report {

struct Decoded {
  std::size_t torn_bytes = 0;  // at the end, that are no whole field
};

// Adds what `bytes` say to `into`. `name` is what errors call them. `torn`: the bytes may end in the middle of a
// top-level field, which is then left out. Memory: a small multiple of the bytes. After an error `into` holds part.
[[nodiscard]] Result<Decoded> decode(std::string_view bytes, const std::string& name, bool torn, Recording& into);

}  // namespace spanfold::report
