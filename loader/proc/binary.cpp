// SPDX-License-Identifier: Apache-2.0
#include "proc/binary.h"

#include "proc/demangle.h"

namespace spanfold::proc {

Binary::Binary(std::shared_ptr<const ByteSource> source, std::string filename, std::string htlhash, Interner& interner)
    : source_(std::move(source)),
      filename_(std::move(filename)),
      htlhash_(std::move(htlhash)),
      interner_(interner),
      elf_(ElfFile::read(*source_)) {
  if (!elf_) return;
  ids_ = elf_->build_ids();
  segment_mappings_.resize(elf_->code().size());
}

void Binary::look_for_debug_file(int process_folder, const std::string& path) {
  if (elf_ && !symbols_) debug_candidates_ = open_debug_candidates(process_folder, path, *elf_, *source_);
}

const Mapping* Binary::make_mapping(std::uint64_t start, std::uint64_t bytes, std::uint64_t file_offset) {
  if (htlhash_.empty()) htlhash_ = htlhash_of_file(*source_);
  return interner_.mapping({.memory_start = start,
                            .memory_limit = start + bytes,
                            .file_offset = file_offset,
                            .filename = filename_,
                            .build_id_gnu = ids_.gnu,
                            .build_id_go = ids_.go,
                            .htlhash = htlhash_});
}

const Mapping* Binary::mapping_of(const CodeSegment& segment) {
  const Mapping*& mapping = segment_mappings_[static_cast<std::size_t>(&segment - elf_->code().data())];
  if (mapping == nullptr) mapping = make_mapping(segment.virtual_address, segment.memory_bytes, segment.file_offset);
  return mapping;
}

const Mapping* Binary::whole_mapping() {
  if (whole_mapping_ == nullptr) whole_mapping_ = make_mapping(0, source_->size(), 0);
  return whole_mapping_;
}

const SymbolTable& Binary::symbols() {
  if (!symbols_) {
    symbols_ = SymbolTable::read(source_, choose_debug_file(debug_candidates_, *elf_));
    debug_candidates_.clear();
    if (!source_->unchanged() || !symbols_->unchanged()) symbols_.emplace();
  }
  return *symbols_;
}

const std::string* Binary::function_of(std::size_t index) {
  const auto [place, added] = functions_.try_emplace(index, nullptr);
  if (added) {
    const std::string raw = symbols().name(index);
    if (!raw.empty() && source_->unchanged() && symbols().unchanged()) place->second = interner_.name(demangle(raw));
  }
  return place->second;
}

FrameType Binary::type_of(std::uint64_t address) {
  if (!go_is_known_) {
    go_ = GoTable::find(*elf_, *source_);
    go_is_known_ = true;
  }
  // The Go linker marks what it links; without its table, C in such a file (cgo) goes with the rest.
  const bool is_go = go_ ? go_->holds(address) : !ids_.go.empty();
  return is_go ? FrameType::kGo : FrameType::kNative;
}

Frame Binary::frame_at(std::uint64_t file_offset, bool names) {
  const CodeSegment* segment = elf_ ? elf_->segment_at(file_offset) : nullptr;
  if (segment == nullptr) return {.mapping = whole_mapping(), .address = file_offset};
  const std::uint64_t address = file_offset - segment->file_offset + segment->virtual_address;
  Frame frame{.mapping = mapping_of(*segment), .address = address, .type = type_of(address)};
  if (!names) return frame;
  const std::size_t index = symbols().find(address);
  if (index != SymbolRanges::kNone) frame.function = function_of(index);
  return frame;
}

const std::string* Binary::function_beginning_at(std::uint64_t file_offset) {
  const CodeSegment* segment = elf_ ? elf_->segment_at(file_offset) : nullptr;
  if (segment == nullptr) return nullptr;
  const std::uint64_t address = file_offset - segment->file_offset + segment->virtual_address;
  const std::size_t index = symbols().find(address);
  return index != SymbolRanges::kNone && symbols().start(index) == address ? function_of(index) : nullptr;
}

}  // namespace spanfold::proc
