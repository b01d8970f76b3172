// SPDX-License-Identifier: Apache-2.0
#include "unwind/entries.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "unwind/pointer.h"

namespace spanfold::unwind {
namespace {

constexpr std::uint32_t kLengthIsWide = 0xffffffff;
constexpr std::uint64_t kMostOffset = std::numeric_limits<std::uint32_t>::max();

// Two sections of this size at most: what they hold is addressed by 32 bits.
static_assert(FrameSection::kMostBytes <= kMostOffset);

}  // namespace

Entries::Entries(const Machine& machine, std::vector<proc::CodeSegment> code, std::uint64_t base)
    : machine_(machine), interpreter_(machine_), code_(std::move(code)), base_(base) {}

// In a wide entry of .eh_frame the pointer to the CIE is wide too, as assemblers and elfutils have it; the standard
// leaves it open whether it is, and nobody writes such.
template <typename Take>
void Entries::each_entry(const FrameSection& section, Take take) const {
  std::uint64_t at = 0;
  while (at < section.bytes.size()) {
    Cursor cursor(section.bytes, at, section.bytes.size());
    Entry entry{.begin = at};
    std::uint64_t length = cursor.number<std::uint32_t>();
    const bool is_wide = length == kLengthIsWide;
    if (is_wide) length = cursor.number<std::uint64_t>();
    if (!cursor.good() || length > cursor.left()) return;
    at = entry.end = cursor.offset() + length;
    const std::uint64_t here = cursor.offset();
    if (length < (is_wide ? 8 : 4)) continue;  // a terminator, which linkers also leave in the middle
    std::uint64_t id = is_wide ? cursor.number<std::uint64_t>() : cursor.number<std::uint32_t>();
    if (section.is_debug) {
      entry.is_cie = id == (is_wide ? ~0ULL : kLengthIsWide);
      entry.pointer = id;
    } else {
      entry.is_cie = id == 0;
      entry.pointer = here - id;  // where that is before the section it wraps around, and nothing is found there
    }
    entry.body = cursor.offset();
    take(entry);
  }
}

void Entries::add(FrameSection added) {
  sections_.push_back(std::move(added));
  first_cie_ = cies_.size();
  // Two passes: .debug_frame may name a CIE before it comes.
  const FrameSection& section = sections_.back();
  each_entry(section, [&](const Entry& entry) {
    if (entry.is_cie) add_cie(section, entry);
  });
  each_entry(section, [&](const Entry& entry) {
    if (!entry.is_cie) add_function(section, entry);
  });
}

void Entries::add_cie(const FrameSection& section, const Entry& entry) {
  if (cies_.size() == kMostCies) return;  // what refers to it is left out
  Cursor cursor(section.bytes, entry.body, entry.end);
  Cie cie{.offset = static_cast<std::uint32_t>(entry.begin),
          .section = static_cast<std::uint8_t>(sections_.size() - 1)};
  const auto version = cursor.number<std::uint8_t>();
  const std::string_view letters = cursor.text();
  bool has_segments = false;
  if (version >= 4) {
    cie.address_bytes = cursor.number<std::uint8_t>();
    has_segments = cursor.number<std::uint8_t>() != 0;
  }
  cie.code_alignment = cursor.uleb();
  cie.data_alignment = cursor.sleb();
  const std::uint64_t return_address = version == 1 ? cursor.number<std::uint8_t>() : cursor.uleb();
  const bool is_known = (version == 1 || version == 3 || version == 4) && !has_segments &&
                        (cie.address_bytes == 4 || cie.address_bytes == 8);
  cie.is_readable = is_known && read_augmentation(cursor, letters, section, cie) && cursor.good();
  cie.is_supported =
      cie.is_readable && return_address == machine_.return_address && interpreter_.run_initial(cie, section, cursor);
  cies_.push_back(cie);
}

bool Entries::read_augmentation(Cursor& cursor, std::string_view letters, const FrameSection& section, Cie& cie) const {
  std::uint64_t end = 0;  // of the data
  if (letters.starts_with('z')) {
    cie.has_data = true;
    const std::uint64_t length = cursor.uleb();
    if (length > cursor.left()) return false;
    end = cursor.offset() + length;
    letters.remove_prefix(1);
  }
  for (const char letter : letters) {
    if (letter == 'R') {
      cie.encoding = cursor.number<std::uint8_t>();
    } else if (letter == 'L') {
      (void)cursor.number<std::uint8_t>();
    } else if (letter == 'P') {
      const auto encoding = cursor.number<std::uint8_t>();
      (void)read_pointer(cursor, encoding, cie.address_bytes, section);  // the personality routine
    } else if (letter == 'S') {
      cie.is_signal_frame = true;
    } else if (!machine_.is_arm64 || (letter != 'B' && letter != 'G')) {  // signed with key B; tagged memory
      return false;
    }
  }
  if (!cie.has_data) return true;
  if (!cursor.good() || cursor.offset() > end) return false;
  cursor.block(end - cursor.offset());
  return true;
}

const Cie* Entries::find_cie(std::uint64_t offset) const {
  const auto begin = cies_.begin() + static_cast<std::ptrdiff_t>(first_cie_);
  const auto found = std::lower_bound(begin, cies_.end(), offset,
                                      [](const Cie& cie, std::uint64_t wanted) { return cie.offset < wanted; });
  return found != cies_.end() && found->offset == offset ? &*found : nullptr;
}

// False where that is no code: linkers leave descriptions of functions that they dropped at address zero, or so.
bool Entries::place(std::uint64_t begin, std::uint64_t bytes, Described& function) const {
  for (const proc::CodeSegment& segment : code_) {
    if (begin < segment.virtual_address || begin - segment.virtual_address >= segment.memory_bytes) continue;
    const std::uint64_t room = segment.memory_bytes - (begin - segment.virtual_address);
    const std::uint64_t offset = begin - base_;
    if (offset >= kMostOffset) return false;
    function.begin = static_cast<std::uint32_t>(offset);
    function.end = static_cast<std::uint32_t>(offset + std::min({bytes, room, kMostOffset - offset}));
    return true;
  }
  return false;
}

void Entries::add_function(const FrameSection& section, const Entry& entry) {
  const Cie* cie = find_cie(entry.pointer);
  if (cie == nullptr || !cie->is_readable || functions_.size() == kMostFunctions) {
    ++left_out_;
    return;
  }
  Cursor cursor(section.bytes, entry.body, entry.end);
  const auto begin = read_pointer(cursor, cie->encoding, cie->address_bytes, section);
  const auto bytes = read_pointer(cursor, cie->encoding & kPointerFormat, cie->address_bytes, section);
  if (cie->has_data) cursor.block(cursor.uleb());
  if (!begin || !bytes || !cursor.good()) {
    ++left_out_;
    return;
  }
  Described function;
  if (*bytes == 0 || !place(*begin, *bytes, function)) return;
  function.instructions = static_cast<std::uint32_t>(cursor.offset());
  function.instruction_bytes = static_cast<std::uint32_t>(cursor.left());
  function.cie = static_cast<std::uint16_t>(cie - cies_.data());
  function.section = cie->section;
  functions_.push_back(function);
}

void Entries::sort() {
  // Stable: what was read first stays first. Merging is fast on what linkers make: a few sorted runs.
  const auto before = [](const Described& a, const Described& b) { return a.begin < b.begin; };
  if (!std::is_sorted(functions_.begin(), functions_.end(), before)) {
    std::stable_sort(functions_.begin(), functions_.end(), before);
  }
}

}  // namespace spanfold::unwind
