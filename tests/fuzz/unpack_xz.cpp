// SPDX-License-Identifier: Apache-2.0
// Packed symbols: an xz stream, within limits.
#include "proc/unpack_xz.h"

#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spanfold;
  const proc::MemorySource source(std::string(reinterpret_cast<const char*>(data), size));
  const proc::UnpackLimits limits{
      .most_bytes = 1UL << 20, .most_gain = 100, .always_bytes = 1UL << 16, .decoder_memory = 4UL << 20};
  const auto whole = proc::unpack_xz(source, 0, size, limits);
  if (!whole) return 0;
  fuzz::check(whole->size() <= limits.most_bytes, "no more comes out than is allowed");
  fuzz::check(whole->size() <= limits.always_bytes || whole->size() / limits.most_gain <= size, "the gain is bounded");
  fuzz::check(!proc::unpack_xz(source, 1, size, limits), "a stream does not begin in its middle");
  return 0;
}
