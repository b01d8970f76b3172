// SPDX-License-Identifier: Apache-2.0
// ELF files with call-frame information made by hand, byte by byte, so that it can be anything.
#pragma once

#include <dwarf.h>
#include <elf.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proc/byte_source.h"
#include "unwind/cfi.h"

namespace spanfold::unwind::test {

// Appends numbers as DWARF writes them.
class Writer {
 public:
  Writer& fixed(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  Writer& byte(std::uint64_t value) { return fixed(value, 1); }
  Writer& uleb(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) byte(value | 0x80);
    return byte(value);
  }
  Writer& sleb(std::int64_t value) {
    for (; value < -0x40 || value > 0x3f; value >>= 7) byte(static_cast<std::uint64_t>(value) | 0x80);
    return byte(static_cast<std::uint64_t>(value) & 0x7f);
  }
  Writer& text(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  // With its length before it.
  Writer& block(std::string_view block) { return uleb(block.size()).text(block); }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

inline Writer ops() { return {}; }

struct CieShape {
  std::uint64_t version = 1;
  std::string letters = "zR";
  std::uint8_t encoding = DW_EH_PE_pcrel | DW_EH_PE_sdata4;
  std::string more_data;  // augmentation data before the encoding
  std::uint64_t code_alignment = 1;
  std::int64_t data_alignment = -8;
  std::uint64_t return_address = 16;
  std::string instructions = Writer().byte(DW_CFA_def_cfa).uleb(7).uleb(8).byte(DW_CFA_offset + 16).uleb(1).bytes();
};

// A section that grows entry by entry.
class Frames {
 public:
  static constexpr std::uint64_t kText = 0x1000;
  static constexpr std::uint64_t kAddress = 0x40000;  // of .eh_frame

  explicit Frames(bool is_debug = false, bool is_wide = false) : is_debug_(is_debug), is_wide_(is_wide) {}

  // Returns its offset.
  std::size_t cie(const CieShape& shape = {});
  // Of the last CIE, unless another one is told.
  Frames& function(std::uint64_t begin, std::uint64_t bytes, const std::string& instructions,
                   std::optional<std::size_t> cie = {});
  Frames& raw(std::string_view bytes) {
    section_.text(bytes);
    return *this;
  }
  [[nodiscard]] const std::string& bytes() const { return section_.bytes(); }
  [[nodiscard]] bool is_debug() const { return is_debug_; }

 private:
  void entry(std::uint64_t id, const std::string& body);

  Writer section_;
  bool is_debug_;
  bool is_wide_;
  std::size_t last_cie_ = 0;
  CieShape shape_;
};

struct ImageShape {
  std::uint16_t machine = EM_X86_64;
  std::uint64_t text = Frames::kText;
  std::uint64_t text_bytes = 0x10000;
  std::uint64_t frame_address = Frames::kAddress;
  bool has_sections = true;
  bool has_frame_header = true;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> code_sections;  // address, bytes
  std::string debug_frame;
  bool is_packed = false;  // .debug_frame
};

// An ELF file around .eh_frame (none where empty).
std::string image_of(std::string_view eh_frame, const ImageShape& shape = {});

inline std::optional<Table> table_of_image(std::string bytes) {
  return read_table(proc::MemorySource(std::move(bytes)));
}

}  // namespace spanfold::unwind::test
