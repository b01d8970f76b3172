// SPDX-License-Identifier: Apache-2.0
// The few parts of an ELF file that naming and unwinding need: segments, notes, section headers, symbols. A reader of
// our own over bounded reads: every count, size and offset is the file's claim, and files are written by people we do
// not know.
#pragma once

#include <elf.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proc/build_id.h"
#include "proc/byte_source.h"

namespace spanfold::proc {

// A PT_LOAD that may be executed.
struct CodeSegment {
  std::uint64_t virtual_address = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t file_bytes = 0;
  auto operator<=>(const CodeSegment&) const = default;
};

class ElfFile {
 public:
  // Reads headers and notes. None where `source` (which must outlive the result) holds no ELF file of the host's byte
  // order, 32 or 64 bits wide. Format: System V gABI, chapters 4 and 5.
  [[nodiscard]] static std::optional<ElfFile> read(const ByteSource& source);

  [[nodiscard]] const std::vector<CodeSegment>& code() const { return code_; }
  [[nodiscard]] const BuildIds& build_ids() const { return ids_; }

  [[nodiscard]] std::uint16_t machine() const { return machine_; }  // EM_…
  [[nodiscard]] bool is_64_bit() const { return wide_; }

  // True where code lies at the same addresses in both, as it does in a file and what was split off from it.
  [[nodiscard]] bool is_laid_out_as(const ElfFile& other) const;

  // The segment whose bytes hold `file_offset`; null where there is none, or where two that disagree about its virtual
  // address claim it. Offsets, not page-rounded mappings, decide: so p_offset != p_vaddr, split mappings and several
  // executable segments need no load bias at all.
  [[nodiscard]] const CodeSegment* segment_at(std::uint64_t file_offset) const;

  // Program headers in 64-bit form, as far as they can be read.
  [[nodiscard]] std::vector<Elf64_Phdr> segments() const;

  // Section headers in 64-bit form; empty where the file has none that can be believed.
  [[nodiscard]] std::vector<Elf64_Shdr> sections() const;

  // The first section of that name that has bytes in the file.
  [[nodiscard]] std::optional<Elf64_Shdr> section_named(std::string_view name) const;

  // Gives each symbol of `table` (a section of type SHT_SYMTAB or SHT_DYNSYM) in file order, in 64-bit form, as far as
  // it can be read and at most kMaxSymbols.
  void each_symbol(const Elf64_Shdr& table, const std::function<void(const Elf64_Sym&)>& take) const;

  static constexpr std::uint64_t kMaxSymbols = 4'000'000;  // Chrome's has about 1.5 million

 private:
  explicit ElfFile(const ByteSource& source) : source_(&source) {}
  template <typename Layout>
  bool read_headers();
  void read_notes(std::uint64_t offset, std::uint64_t bytes, std::uint64_t alignment);

  const ByteSource* source_;
  bool wide_ = true;  // 64 bits
  std::uint16_t machine_ = EM_NONE;
  std::uint64_t segment_table_offset_ = 0;
  std::uint16_t segment_count_ = 0;
  std::uint64_t section_table_offset_ = 0;
  std::uint16_t section_count_ = 0;
  std::uint16_t section_names_ = 0;  // index of the section that holds their names
  std::vector<CodeSegment> code_;
  BuildIds ids_;
};

}  // namespace spanfold::proc
