// SPDX-License-Identifier: Apache-2.0
#include "proc/line_reader.h"

#include <dwarf.h>

#include <algorithm>
#include <string>

namespace spanfold::proc {
namespace {

constexpr std::size_t kMostRanges = 4'000'000;  // of units, and of the functions of one unit
constexpr int kMostNested = 64;                 // namespaces in namespaces, blocks in blocks

std::string text_of(const char* text) { return text == nullptr ? std::string() : std::string(text); }

std::string string_attribute(Dwarf_Die& die, unsigned name) {
  Dwarf_Attribute attribute;
  return dwarf_attr_integrate(&die, name, &attribute) != nullptr ? text_of(dwarf_formstring(&attribute))
                                                                 : std::string();
}

std::uint64_t number_attribute(Dwarf_Die& die, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  const bool found = dwarf_attr(&die, name, &attribute) != nullptr && dwarf_formudata(&attribute, &value) == 0;
  return found ? value : 0;
}

std::string function_of(Dwarf_Die& die) {
  for (const unsigned name : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name}) {
    std::string found = string_attribute(die, name);
    if (!found.empty()) return found;
  }
  return {};
}

std::string whole_path(Dwarf_Die& unit, std::string path) {
  if (path.empty() || path.starts_with('/')) return path;
  const std::string folder = string_attribute(unit, DW_AT_comp_dir);
  return folder.empty() ? path : folder + "/" + path;
}

// Where an inlined function was called: the line of the function around it.
RawLine call_of(Dwarf_Die& unit, Dwarf_Die& inlined) {
  RawLine call;
  call.line = static_cast<std::uint32_t>(number_attribute(inlined, DW_AT_call_line));
  Dwarf_Files* files = nullptr;
  std::size_t count = 0;
  const std::uint64_t file = number_attribute(inlined, DW_AT_call_file);
  if (dwarf_getsrcfiles(&unit, &files, &count) == 0 && file < count) {
    call.file = whole_path(unit, text_of(dwarf_filesrc(files, file, nullptr, nullptr)));
  }
  return call;
}

RawLine line_of(Dwarf_Die& unit, Dwarf_Addr address) {
  RawLine found;
  Dwarf_Line* line = dwarf_getsrc_die(&unit, address);
  if (line == nullptr) return found;
  int number = 0;
  if (dwarf_lineno(line, &number) == 0 && number > 0) found.line = static_cast<std::uint32_t>(number);
  found.file = whole_path(unit, text_of(dwarf_linesrc(line, nullptr, nullptr)));
  return found;
}

template <typename Take>
void each_child(Dwarf_Die& parent, Take take) {
  Dwarf_Die child;
  if (dwarf_child(&parent, &child) != 0) return;
  do {
    if (!take(child)) return;
  } while (dwarf_siblingof(&child, &child) == 0);
}

// What may hold functions.
bool is_scope(int tag) {
  return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_class_type || tag == DW_TAG_structure_type ||
         tag == DW_TAG_union_type || tag == DW_TAG_enumeration_type || tag == DW_TAG_subprogram ||
         tag == DW_TAG_lexical_block;
}

}  // namespace

std::unique_ptr<LineReader> LineReader::open(Fd fd) {
  elf_version(EV_CURRENT);
  std::unique_ptr<LineReader> reader(new LineReader());
  reader->fd_ = std::move(fd);
  // By reads, not by a map: whoever owns the file may cut it.
  reader->elf_.reset(elf_begin(reader->fd_.get(), ELF_C_READ, nullptr));
  if (!reader->elf_) return nullptr;
  reader->dwarf_.reset(dwarf_begin_elf(reader->elf_.get(), DWARF_C_READ, nullptr));
  if (!reader->dwarf_) return nullptr;
  reader->index_units();
  return reader;
}

void LineReader::add_ranges(Dwarf_Die& die, Ranges& into) {
  std::ptrdiff_t offset = 0;
  Dwarf_Addr base = 0;
  Range range{.die = dwarf_dieoffset(&die)};
  while (into.size() < kMostRanges && (offset = dwarf_ranges(&die, offset, &base, &range.begin, &range.end)) > 0) {
    if (range.begin < range.end) into.push_back(range);
  }
}

void LineReader::sort(Ranges& ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return std::pair(a.begin, a.die) < std::pair(b.begin, b.die); });
}

// Ranges that overlap are no compiler's: a few are looked through.
const LineReader::Range* LineReader::range_at(const Ranges& ranges, Dwarf_Addr address) {
  constexpr int kMostTried = 16;
  auto place = std::upper_bound(ranges.begin(), ranges.end(), address,
                                [](Dwarf_Addr value, const Range& range) { return value < range.begin; });
  for (int tried = 0; tried < kMostTried && place != ranges.begin(); ++tried) {
    --place;
    if (address < place->end) return &*place;
  }
  return nullptr;
}

void LineReader::index_units() {
  Dwarf_CU* unit = nullptr;
  Dwarf_Die die;
  std::uint8_t type = 0;
  while (dwarf_get_units(dwarf_.get(), unit, &unit, nullptr, &type, &die, nullptr) == 0) {
    if (type == DW_UT_compile || type == DW_UT_skeleton) add_ranges(die, units_);
  }
  sort(units_);
}

void LineReader::index_functions(Dwarf_Die& parent, int depth, Ranges& into) {
  if (depth > kMostNested) return;
  each_child(parent, [&](Dwarf_Die& child) {
    const int tag = dwarf_tag(&child);
    if (tag == DW_TAG_subprogram) add_ranges(child, into);
    // A function inside another (a lambda, a local class) lies in that one's tree.
    if (is_scope(tag) && dwarf_haschildren(&child) > 0) index_functions(child, depth + 1, into);
    return into.size() < kMostRanges;
  });
}

const LineReader::Ranges& LineReader::functions_of(Dwarf_Die& unit) {
  const auto [place, added] = functions_.try_emplace(dwarf_dieoffset(&unit));
  if (added) {
    index_functions(unit, 0, place->second);
    sort(place->second);
  }
  return place->second;
}

std::vector<Dwarf_Die> LineReader::chain_at(Dwarf_Die& unit, Dwarf_Addr address) {
  std::vector<Dwarf_Die> chain;
  const Range* function = range_at(functions_of(unit), address);
  Dwarf_Die at;
  if (function == nullptr || dwarf_offdie(dwarf_.get(), function->die, &at) == nullptr) return chain;
  chain.push_back(at);
  for (int depth = 0; depth < kMostNested; ++depth) {
    bool found = false;
    Dwarf_Die inner;
    each_child(at, [&](Dwarf_Die& child) {
      const int tag = dwarf_tag(&child);
      if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_lexical_block) return true;
      if (dwarf_haspc(&child, address) <= 0) return true;
      inner = child;
      found = true;
      return false;
    });
    if (!found) break;
    at = inner;
    if (dwarf_tag(&at) == DW_TAG_inlined_subroutine) chain.push_back(at);
  }
  return chain;
}

RawLines LineReader::lines_at(std::uint64_t address) {
  const Range* range = range_at(units_, address);
  Dwarf_Die unit;
  if (range == nullptr || dwarf_offdie(dwarf_.get(), range->die, &unit) == nullptr) return {};
  RawLine place = line_of(unit, address);
  std::vector<Dwarf_Die> chain = chain_at(unit, address);
  RawLines lines;
  std::reverse(chain.begin(), chain.end());
  for (Dwarf_Die& die : chain) {
    place.function = function_of(die);
    lines.push_back(place);
    if (dwarf_tag(&die) == DW_TAG_inlined_subroutine) place = call_of(unit, die);
  }
  if (lines.empty() && (place.line != 0 || !place.file.empty())) lines.push_back(std::move(place));
  return lines;
}

}  // namespace spanfold::proc
