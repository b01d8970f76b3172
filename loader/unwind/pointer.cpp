// SPDX-License-Identifier: Apache-2.0
#include "unwind/pointer.h"

namespace spanfold::unwind {
namespace {

enum Format : std::uint8_t {
  kAbsolute = 0x00,
  kUleb = 0x01,
  kUdata2 = 0x02,
  kUdata4 = 0x03,
  kUdata8 = 0x04,
  kSigned = 0x08,
  kSleb = 0x09,
  kSdata2 = 0x0a,
  kSdata4 = 0x0b,
  kSdata8 = 0x0c,
};

enum Application : std::uint8_t {
  kNothing = 0x00,
  kFromHere = 0x10,
  kFromText = 0x20,
  kFromData = 0x30,
  kFromFunction = 0x40,
  kAligned = 0x50,
};
constexpr std::uint8_t kApplicationBits = 0x70;
constexpr std::uint8_t kIndirect = 0x80;

std::optional<std::uint64_t> read_value(Cursor& cursor, std::uint8_t format, std::uint8_t address_bytes) {
  switch (format) {
    case kAbsolute: return address_bytes == 4 ? cursor.number<std::uint32_t>() : cursor.number<std::uint64_t>();
    case kUleb: return cursor.uleb();
    case kUdata2: return cursor.number<std::uint16_t>();
    case kUdata4: return cursor.number<std::uint32_t>();
    case kUdata8:
    case kSdata8: return cursor.number<std::uint64_t>();
    case kSigned:
      if (address_bytes == 4) return static_cast<std::uint64_t>(std::int64_t{cursor.number<std::int32_t>()});
      return cursor.number<std::uint64_t>();
    case kSleb: return static_cast<std::uint64_t>(cursor.sleb());
    case kSdata2: return static_cast<std::uint64_t>(std::int64_t{cursor.number<std::int16_t>()});
    case kSdata4: return static_cast<std::uint64_t>(std::int64_t{cursor.number<std::int32_t>()});
    default: return {};
  }
}

std::optional<std::uint64_t> base_of(std::uint8_t application, std::uint64_t here, const FrameSection& section) {
  switch (application) {
    case kNothing:
    case kAligned: return 0;
    case kFromHere: return here;
    case kFromText: return section.text_base;
    case kFromData: return section.data_base;
    default: return {};
  }
}

}  // namespace

std::optional<std::uint64_t> read_pointer(Cursor& cursor, std::uint8_t encoding, std::uint8_t address_bytes,
                                          const FrameSection& section) {
  if (encoding == kNoPointer) return {};
  const std::uint8_t application = encoding & kApplicationBits;
  if (application == kAligned) {
    const std::uint64_t beyond = (section.address + cursor.offset()) % address_bytes;
    if (beyond != 0) cursor.block(address_bytes - beyond);
  }
  const std::uint64_t here = section.address + cursor.offset();
  const auto value = read_value(cursor, encoding & kPointerFormat, address_bytes);
  const auto base = base_of(application, here, section);
  if (!value || !base || !cursor.good() || (encoding & kIndirect) != 0) return {};
  return *base + *value;
}

}  // namespace spanfold::unwind
