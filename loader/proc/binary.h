// SPDX-License-Identifier: Apache-2.0
// Binary: one mapped file (or the vDSO), opened once and shared by the processes that map it. Turns file offsets into
// frames.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/frame.h"
#include "proc/byte_source.h"
#include "proc/debug_file.h"
#include "proc/elf_file.h"
#include "proc/go_table.h"
#include "proc/interner.h"
#include "proc/line_finder.h"
#include "proc/symbol_cache.h"

namespace spanfold::proc {

class Binary {
 public:
  // `filename` is what its mappings are called. `htlhash` empty: computed from the source when it is needed. `lines`
  // null: nobody wants them.
  Binary(std::shared_ptr<const ByteSource> source, std::string filename, std::string htlhash, Interner& interner,
         SymbolCache& cache, LineFinder* lines = nullptr);

  // Call before the first name is asked for, while the process is there: opens what may be the debug file, below the
  // root of the process with the open folder `process_folder`, where `path` leads to this file.
  void look_for_debug_file(int process_folder, const std::string& path);

  // The frame of the instruction at `file_offset`. Without `names`, or where no symbol covers it, it has no function.
  // An offset that no executable segment holds, or a file that is no ELF file, gives a mapping that spans the file and
  // the offset as address. Reads the symbol table when the first name is asked for; a file that was written over in
  // place since it was opened gives no new names.
  [[nodiscard]] Frame frame_at(std::uint64_t file_offset, bool names);

  // The name of the function that begins exactly at `file_offset`; null where none does.
  [[nodiscard]] const std::string* function_beginning_at(std::uint64_t file_offset);

  // Where code that is mapped from `file_offset` on, for `bytes` bytes, lies in the file's own addresses; none where no
  // executable segment does.
  [[nodiscard]] std::optional<std::uint64_t> address_of(std::uint64_t file_offset, std::uint64_t bytes) const;

  [[nodiscard]] const ByteSource& source() const { return *source_; }
  [[nodiscard]] const std::shared_ptr<const ByteSource>& shared_source() const { return source_; }
  [[nodiscard]] const BuildIds& build_ids() const { return ids_; }

 private:
  const Mapping* make_mapping(std::uint64_t start, std::uint64_t bytes, std::uint64_t file_offset);
  const Mapping* mapping_of(const CodeSegment& segment);
  const Mapping* whole_mapping();
  // Null while there is no table to be had: the file was written over, or its table had to go to make room and is not
  // due to be read again.
  std::shared_ptr<const SharedSymbols> symbols();
  FrameType type_of(std::uint64_t address);
  void offer_lines(const Mapping* mapping);
  struct Function {
    const std::string* name = nullptr;
    bool table_known = false;
  };
  enum class Where : std::uint8_t { kInside, kBegin };
  Function function_at(std::uint64_t address, Where where);
  // Null, and then symbols_ is empty, where the table is that of a copy that was written over.
  const std::string* function_of(const SymbolTable& table, std::size_t index);

  std::shared_ptr<const ByteSource> source_;
  std::string filename_;
  std::string htlhash_;
  Interner& interner_;
  SymbolCache& cache_;
  LineFinder* lines_;
  std::uint64_t number_;  // among all that lines are wanted of; else 0
  std::optional<ElfFile> elf_;
  BuildIds ids_;
  std::vector<DebugCandidate> debug_candidates_;  // until symbols are read
  std::shared_ptr<const ByteSource> debug_file_;  // once symbols were read; null: none
  std::weak_ptr<SharedSymbols> symbols_;
  std::uint64_t read_again_ns_ = 0;  // not earlier than this; 0: never read
  bool go_is_known_ = false;
  std::optional<GoTable> go_;
  std::unordered_map<std::uint64_t, const std::string*> functions_;  // by where they begin; null: no name to be had
  std::vector<const Mapping*> segment_mappings_;                     // by position in elf_->code(); null: not made yet
  const Mapping* whole_mapping_ = nullptr;
};

}  // namespace spanfold::proc
