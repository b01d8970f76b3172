// SPDX-License-Identifier: Apache-2.0
// Windows to OTLP profiles bytes (opentelemetry-proto 1.10+, profiles.v1development). Knows no files, clocks, sockets.
#pragma once

#include <memory>
#include <string>

#include "profile/model.h"

namespace spanfold::profile {

struct EncoderOptions {
  enum class Mode : std::uint8_t {
    kMessages,    // each result is a ProfilesData message of its own, with the smallest dictionary
    kIncrements,  // the results, concatenated, are one ProfilesData message with one growing dictionary
  };
  Mode mode = Mode::kMessages;
  std::string version;  // of spanfold, goes into the instrumentation scope
};

// Equal windows in an equal order give equal bytes, in whatever order a window holds its processes and samples.
//
// Memory: kMessages holds one message. kIncrements remembers rows by a 128-bit hash of their content, never the
// content, and at most a fixed number of each table (see dictionary.h), so it stays bounded over any length of run.
//
// Frames behind Sample::frames and what they point to are read during encode() only.
class Encoder {
 public:
  explicit Encoder(EncoderOptions options);
  ~Encoder();
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  // Appends one message (or increment) to `out`. A process has a profile of what ran on the CPU, then those of the
  // times of its spans, as far as it has any of them. Where no process has on-CPU samples, the first one has an on-CPU
  // profile without samples: the accounting is on the first on-CPU profile. A result that was lost after kIncrements
  // made it leaves holes in the dictionary of all later ones: whoever writes them keeps their order and their bytes.
  void encode(const Window& window, std::string& out);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Nanoseconds of CPU that one sample stands for: 1e9/Hz, rounded; never 0.
[[nodiscard]] std::int64_t sample_period_ns(std::uint32_t frequency_hz);

}  // namespace spanfold::profile
