// SPDX-License-Identifier: Apache-2.0
#include "proc/unpack_xz.h"

#include <lzma.h>

#include <algorithm>
#include <memory>

namespace spanfold::proc {
namespace {

struct EndStream {
  void operator()(lzma_stream* stream) const { lzma_end(stream); }
};

constexpr std::size_t kPieceBytes = 64UL * 1024;

}  // namespace

std::optional<std::string> unpack_xz(const ByteSource& source, std::uint64_t offset, std::uint64_t bytes,
                                     const UnpackLimits& limits) {
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, limits.decoder_memory, LZMA_TELL_UNSUPPORTED_CHECK) != LZMA_OK) return {};
  const std::unique_ptr<lzma_stream, EndStream> owner(&stream);
  std::string input(std::min<std::uint64_t>(bytes, kPieceBytes), '\0');
  std::string output;
  lzma_ret result = LZMA_OK;
  while (result == LZMA_OK) {
    if (stream.avail_in == 0 && bytes > 0) {
      const std::size_t got =
          source.read_some(offset, std::span(input).first(std::min<std::uint64_t>(bytes, input.size())));
      if (got == 0) return {};
      stream.next_in = reinterpret_cast<const std::uint8_t*>(input.data());
      stream.avail_in = got;
      offset += got;
      bytes -= got;
    }
    const std::size_t have = output.size();
    output.resize(have + kPieceBytes);
    stream.next_out = reinterpret_cast<std::uint8_t*>(output.data()) + have;
    stream.avail_out = kPieceBytes;
    // Without input that is left, this ends in LZMA_BUF_ERROR unless the stream is complete.
    result = lzma_code(&stream, bytes == 0 ? LZMA_FINISH : LZMA_RUN);
    output.resize(output.size() - stream.avail_out);
    const bool gains_too_much =
        output.size() > limits.always_bytes && output.size() / limits.most_gain > stream.total_in;
    if (output.size() > limits.most_bytes || gains_too_much) return {};
  }
  if (result != LZMA_STREAM_END) return {};
  return output;
}

}  // namespace spanfold::proc
