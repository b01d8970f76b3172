// SPDX-License-Identifier: Apache-2.0
#include "proc/kallsyms.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "proc/symbol_table.h"

namespace spanfold::proc {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::size_t kMaxLineBytes = 1024;  // KSYM_NAME_LEN is 512
constexpr std::string_view kPaddingPrefix = "__pfx_";

// 0, 1, 2 for text symbols, the smaller the better; above for those that only mark an end.
constexpr std::uint8_t kNotText = 3;
std::uint8_t rank_of(char type) {
  switch (type) {
    case 'T': return 0;
    case 'W':
    case 'w': return 1;
    case 't': return 2;
    default: return kNotText;
  }
}

}  // namespace

std::uint16_t Kallsyms::module_index(std::string_view name) {
  if (module_names_.empty()) module_names_.emplace_back("[kernel]");
  if (name.empty()) return 0;
  // Lines of one module stand together, so the last one is nearly always right.
  if (module_names_.back() == name) return static_cast<std::uint16_t>(module_names_.size() - 1);
  const auto place = std::find(module_names_.begin(), module_names_.end(), name);
  const auto index = static_cast<std::uint16_t>(place - module_names_.begin());
  if (place == module_names_.end() && module_names_.size() < std::numeric_limits<std::uint16_t>::max()) {
    module_names_.emplace_back(name);
  }
  return index;
}

void Kallsyms::take(std::string_view line) {
  std::uint64_t address = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), address, 16);
  const auto digits = static_cast<std::size_t>(end - line.data());
  if (error != std::errc{} || line.size() < digits + 4 || line[digits] != ' ' || line[digits + 2] != ' ') return;
  ++lines_;
  any_address_ = any_address_ || address != 0;
  if (symbols_.size() >= kMaxSymbols || address == 0) return;
  const char type = line[digits + 1];
  line.remove_prefix(digits + 3);
  const std::size_t tab = line.find('\t');
  const std::string_view name = line.substr(0, tab);
  const std::string_view module = tab == std::string_view::npos ? std::string_view() : line.substr(tab + 1);
  Line symbol{address, kNoName, module_index(module), rank_of(type)};
  if (symbol.module == 0 && name == "_etext") etext_ = address;
  const bool named = symbol.rank < kNotText && !name.starts_with(kPaddingPrefix) && !name.empty();
  if (named && names_.size() + name.size() + 1 < kNoName) {
    symbol.name = static_cast<std::uint32_t>(names_.size());
    names_.append(name).push_back('\0');
  }
  symbols_.push_back(symbol);
}

void Kallsyms::feed(std::string_view piece) {
  while (!piece.empty()) {
    const std::size_t newline = piece.find('\n');
    const std::string_view part = piece.substr(0, newline);
    if (newline == std::string_view::npos) {
      if (rest_.size() < kMaxLineBytes) rest_ += part;
      return;
    }
    if (rest_.empty()) {
      take(part);
    } else {
      take(rest_ += part);
      rest_.clear();
    }
    piece.remove_prefix(newline + 1);
  }
}

std::string_view Kallsyms::name_at(std::uint32_t offset) const { return names_.c_str() + offset; }

bool Kallsyms::better(const Line& a, const Line& b) const {
  if ((a.name == kNoName) != (b.name == kNoName)) return b.name == kNoName;
  if (a.name == kNoName) return false;
  if (a.rank != b.rank) return a.rank < b.rank;
  return is_better_name(name_at(a.name), name_at(b.name));
}

void Kallsyms::extend_module(std::uint64_t start, std::uint64_t end, const std::string& name) {
  if (modules_.empty() || modules_.back().name != name) {
    const auto first =
        std::find_if(modules_.begin(), modules_.end(), [&](const Module& module) { return module.name == name; });
    modules_.push_back({start, end, first == modules_.end() ? start : first->base, name});
  }
  modules_.back().end = end;
}

std::uint64_t Kallsyms::end_of(const Line& symbol, std::size_t next) const {
  // Where the next symbol belongs to something else, nothing says where this one ends.
  std::uint64_t end = symbol.address / kPageBytes * kPageBytes + (kPageBytes - 1);
  if (end != std::numeric_limits<std::uint64_t>::max()) ++end;  // the last byte of all has no end to speak of
  if (next < symbols_.size() && (symbols_[next].module == symbol.module || symbols_[next].address < end)) {
    end = symbols_[next].address;
  }
  return symbol.module == 0 && etext_ != 0 ? std::min(end, etext_) : end;
}

void Kallsyms::finish() {
  if (!rest_.empty()) take(rest_);
  rest_ = {};
  const auto before = [](const Line& a, const Line& b) { return a.address < b.address; };
  if (!std::is_sorted(symbols_.begin(), symbols_.end(), before)) {
    std::stable_sort(symbols_.begin(), symbols_.end(), before);
  }
  std::vector<SymbolRange> ranges;
  ranges.reserve(symbols_.size());
  std::uint64_t base = 0;
  for (std::size_t i = 0; i < symbols_.size();) {
    std::size_t next = i;
    Line best = symbols_[i];
    for (; next < symbols_.size() && symbols_[next].address == best.address; ++next) {
      if (better(symbols_[next], best)) best = symbols_[next];
    }
    i = next;
    // Behind _etext lies what ran at boot; its memory has been given away since.
    const bool boot = best.module == 0 && etext_ != 0 && best.address >= etext_;
    if (best.name == kNoName || boot) continue;
    const std::uint64_t end = end_of(best, next);
    if (ranges.empty()) base = best.address;
    // x86-64 and arm64 keep the kernel and all modules within 4 GiB.
    if (best.address - base > std::numeric_limits<std::uint32_t>::max() - (end - best.address)) continue;
    ranges.push_back(
        {static_cast<std::uint32_t>(best.address - base), static_cast<std::uint32_t>(end - best.address), best.name});
    extend_module(best.address, end, module_names_[best.module]);
  }
  ranges.shrink_to_fit();
  names_.shrink_to_fit();
  symbols_ = std::vector<Line>();  // `= {}` would keep the memory
  module_names_ = std::vector<std::string>();
  ranges_ = SymbolRanges(base, std::move(ranges));
}

Kallsyms::Found Kallsyms::find(std::uint64_t address) const {
  Found found;
  const auto next = std::upper_bound(modules_.begin(), modules_.end(), address,
                                     [](std::uint64_t value, const Module& module) { return value < module.start; });
  if (next == modules_.begin() || address >= (next - 1)->end) return found;
  found.module = &*(next - 1);
  found.module_offset = address - found.module->base;
  const std::size_t index = ranges_.find(address);
  if (index != SymbolRanges::kNone) found.name = name_at(ranges_[index].name);
  return found;
}

std::size_t Kallsyms::memory_bytes() const {
  return ranges_.memory_bytes() + names_.capacity() + modules_.capacity() * sizeof(Module) +
         symbols_.capacity() * sizeof(Line);
}

}  // namespace spanfold::proc
