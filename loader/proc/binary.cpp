// SPDX-License-Identifier: Apache-2.0
#include "proc/binary.h"

#include "base/clock.h"
#include "proc/demangle.h"

namespace spanfold::proc {

Binary::Binary(std::shared_ptr<const ByteSource> source, std::string filename, std::string htlhash, Interner& interner,
               SymbolCache& cache, LineFinder* lines)
    : source_(std::move(source)),
      filename_(std::move(filename)),
      htlhash_(std::move(htlhash)),
      interner_(interner),
      cache_(cache),
      lines_(lines),
      number_(lines == nullptr ? 0 : lines->next_number()),
      elf_(ElfFile::read(*source_)) {
  if (!elf_) return;
  ids_ = elf_->build_ids();
  segment_mappings_.resize(elf_->code().size());
}

void Binary::look_for_debug_file(int process_folder, const std::string& path) {
  if (!elf_ || read_again_ns_ != 0) return;
  debug_candidates_ = open_debug_candidates(process_folder, path, *elf_, *source_, lines_ != nullptr);
}

const Mapping* Binary::make_mapping(std::uint64_t start, std::uint64_t bytes, std::uint64_t file_offset) {
  if (htlhash_.empty()) htlhash_ = htlhash_of_file(*source_);
  return interner_.mapping({.memory_start = start,
                            .memory_limit = start + bytes,
                            .file_offset = file_offset,
                            .filename = filename_,
                            .build_id_gnu = ids_.gnu,
                            .build_id_go = ids_.go,
                            .htlhash = htlhash_,
                            .file = number_});
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

std::shared_ptr<const SharedSymbols> Binary::symbols() {
  auto symbols = symbols_.lock();
  if (!symbols) {
    // Tables that take turns in too small a budget must not cost more than a hundredth of a CPU.
    constexpr std::uint64_t kPauseTimesCost = 100;
    const std::uint64_t begin_ns = boot_clock_ns();
    if (begin_ns < read_again_ns_ || !source_->unchanged()) return nullptr;
    if (read_again_ns_ == 0) debug_file_ = choose_debug_file(debug_candidates_, *elf_);
    debug_candidates_.clear();
    symbols = cache_.of(ids_.gnu, {source_, debug_file_});
    const std::uint64_t end_ns = boot_clock_ns();
    read_again_ns_ = end_ns + kPauseTimesCost * (end_ns - begin_ns);
    if (!source_->unchanged() || !symbols->table.unchanged()) return nullptr;
    symbols_ = symbols;
  }
  cache_.note_use(*symbols);
  return symbols;
}

const std::string* Binary::function_of(const SymbolTable& table, std::size_t index) {
  const auto known = functions_.find(table.start(index));
  if (known != functions_.end()) return known->second;
  const std::string raw = table.name(index);
  if (!source_->unchanged()) return nullptr;
  if (!table.unchanged()) {
    // Somebody wrote into a copy, out of which the table was read: this file then has one of its own, and at once.
    symbols_.reset();
    read_again_ns_ = 1;
    return nullptr;
  }
  const std::string* name = raw.empty() ? nullptr : interner_.name(demangle(raw));
  return functions_.emplace(table.start(index), name).first->second;
}

Binary::Function Binary::function_at(std::uint64_t address, Where where) {
  Function found;
  for (int tries = 0; tries < 2; ++tries) {
    const auto symbols = this->symbols();
    found.table_known = symbols != nullptr;
    const std::size_t index = symbols ? symbols->table.find(address) : SymbolRanges::kNone;
    if (index == SymbolRanges::kNone) break;
    if (where == Where::kBegin && symbols->table.start(index) != address) break;
    found.name = function_of(symbols->table, index);
    if (found.name != nullptr || !symbols_.expired()) break;
  }
  return found;
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
  const Function function = function_at(address, Where::kInside);
  frame.function = function.name;
  if (lines_ != nullptr && function.table_known && !lines_->knows(frame.mapping)) offer_lines(frame.mapping);
  return frame;
}

// After symbols were read: it is then known which debug file is the right one.
void Binary::offer_lines(const Mapping* mapping) {
  lines_->add_file(mapping, has_debug_lines(*elf_) ? source_ : debug_file_);
}

std::optional<std::uint64_t> Binary::address_of(std::uint64_t file_offset, std::uint64_t bytes) const {
  if (!elf_) return {};
  for (const CodeSegment& segment : elf_->code()) {
    const bool meets =
        segment.file_offset < file_offset + bytes && file_offset < segment.file_offset + segment.file_bytes;
    // Mappings begin and end with pages, segments need not.
    if (meets) return segment.virtual_address + (file_offset - segment.file_offset);
  }
  return {};
}

const std::string* Binary::function_beginning_at(std::uint64_t file_offset) {
  const CodeSegment* segment = elf_ ? elf_->segment_at(file_offset) : nullptr;
  if (segment == nullptr) return nullptr;
  const std::uint64_t address = file_offset - segment->file_offset + segment->virtual_address;
  return function_at(address, Where::kBegin).name;
}

}  // namespace spanfold::proc
