// SPDX-License-Identifier: Apache-2.0
#include "unwind/inflate.h"

#include <zlib.h>

#include <algorithm>

namespace spanfold::unwind {
namespace {

class Inflater {
 public:
  Inflater() : good_(::inflateInit(&stream_) == Z_OK) {}
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() {
    if (good_) ::inflateEnd(&stream_);
  }
  [[nodiscard]] bool good() const { return good_; }
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
  bool good_;
};

}  // namespace

std::optional<std::string> inflate_part(const proc::ByteSource& source, std::uint64_t offset,
                                        std::uint64_t packed_bytes, std::uint64_t unpacked_bytes) {
  constexpr std::uint64_t kAtOnce = 64UL * 1024;
  // What deflate cannot do is not given memory for: it packs 1032 bytes into one at the very best.
  constexpr std::uint64_t kMostGain = 1032;
  if (unpacked_bytes / kMostGain > packed_bytes || packed_bytes > source.size()) return {};
  Inflater inflater;
  if (!inflater.good()) return {};
  std::string unpacked(unpacked_bytes, '\0');
  std::string chunk(std::min(packed_bytes, kAtOnce), '\0');
  z_stream& stream = inflater.stream();
  stream.next_out = reinterpret_cast<Bytef*>(unpacked.data());
  stream.avail_out = static_cast<uInt>(unpacked.size());
  while (stream.avail_out > 0) {
    const std::size_t got = source.read_some(offset, {chunk.data(), std::min(packed_bytes, kAtOnce)});
    if (got == 0) return {};
    offset += got;
    packed_bytes -= got;
    stream.next_in = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_in = static_cast<uInt>(got);
    const int state = ::inflate(&stream, Z_NO_FLUSH);
    if (state == Z_STREAM_END) break;
    if (state != Z_OK) return {};
  }
  if (stream.avail_out > 0) return {};
  return unpacked;
}

}  // namespace spanfold::unwind
