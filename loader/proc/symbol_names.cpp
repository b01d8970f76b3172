// SPDX-License-Identifier: Apache-2.0
#include "proc/symbol_names.h"

#include <algorithm>
#include <limits>

namespace spanfold::proc {

std::optional<std::uint32_t> SymbolNames::add(std::shared_ptr<const ByteSource> source, std::uint64_t offset,
                                              std::uint64_t bytes, std::string_view suffix) {
  for (const Part& part : parts_) {
    if (part.source == source && part.offset == offset && part.suffix == suffix) return part.begin;
  }
  const std::uint32_t begin = parts_.empty() ? 0 : parts_.back().begin + parts_.back().bytes;
  const std::uint64_t room = std::numeric_limits<std::uint32_t>::max() - begin;
  if (bytes == 0 || offset >= source->size()) return {};
  bytes = std::min(bytes, source->size() - offset);
  if (bytes > room) return {};
  parts_.push_back({std::move(source), offset, static_cast<std::uint32_t>(bytes), begin, suffix});
  return begin;
}

std::optional<std::uint32_t> SymbolNames::with_suffix(std::uint32_t name, std::string_view suffix) {
  const std::size_t index = part_of(name);
  if (index == parts_.size()) return {};
  const Part part = parts_[index];
  const auto begin = add(part.source, part.offset, part.bytes, suffix);
  return begin ? std::optional(*begin + (name - part.begin)) : std::nullopt;
}

std::size_t SymbolNames::part_of(std::uint32_t name) const {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (name >= parts_[i].begin && name - parts_[i].begin < parts_[i].bytes) return i;
  }
  return parts_.size();
}

std::string SymbolNames::at(std::uint32_t name) const {
  const std::size_t index = part_of(name);
  if (index == parts_.size()) return {};
  const Part& part = parts_[index];
  const std::uint64_t limit = part.offset + part.bytes;
  std::uint64_t at = part.offset + (name - part.begin);
  std::string text;
  constexpr std::size_t kStep = 256;  // most names fit
  for (std::size_t step = kStep; at < limit && text.size() < kMaxNameBytes; step *= 4) {
    const std::size_t have = text.size();
    text.resize(have + std::min({std::uint64_t{step}, limit - at, std::uint64_t{kMaxNameBytes - have}}));
    const std::size_t got = part.source->read_some(at, std::span(text).subspan(have));
    const std::size_t end = text.find('\0', have);
    if (end < have + got) {
      text.resize(end);
      break;
    }
    if (got < text.size() - have) return {};
    at += got;
  }
  if (!text.empty()) text += part.suffix;
  return text;
}

bool SymbolNames::unchanged() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.source->unchanged(); });
}

void SymbolNames::each_of(const ByteSource& source,
                          const std::function<void(std::uint64_t, std::uint64_t)>& take) const {
  for (const Part& part : parts_) {
    if (part.source.get() == &source) take(part.offset, part.bytes);
  }
}

void SymbolNames::keep_only_named(const ByteSource& source, std::vector<SymbolRange>& ranges) {
  const std::size_t count = parts_.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (parts_[i].source.get() != &source) continue;
    const Part part = parts_[i];
    std::string kept;
    std::vector<std::pair<SymbolRange*, std::uint32_t>> moved;  // and where its name stands in `kept`
    for (SymbolRange& range : ranges) {
      constexpr std::size_t kSharedBytes = 1UL << 20;  // strings may share their ends; far more is a trap
      if (part_of(range.name) != i || kept.size() > part.bytes + kSharedBytes) continue;
      moved.emplace_back(&range, static_cast<std::uint32_t>(kept.size()));
      const std::string name = at(range.name);
      kept.append(name, 0, name.size() - std::min(name.size(), part.suffix.size())) += '\0';
    }
    parts_[i].source = std::make_shared<MemorySource>("");
    kept.shrink_to_fit();
    memory_bytes_ += kept.size();
    const std::uint64_t bytes = kept.size();
    const auto begin = add(std::make_shared<MemorySource>(std::move(kept)), 0, bytes, part.suffix);
    for (const auto& [range, place] : moved) range->name = begin ? *begin + place : range->name;
  }
}

SymbolNames::Reader::Reader(const SymbolNames& names) : names_(names) {
  for (const Part& part : names.parts_) windows_.emplace_back(*part.source);
}

std::uint64_t SymbolNames::Reader::reads() const {
  std::uint64_t reads = 0;
  for (const WindowReader& window : windows_) reads += window.reads();
  return reads;
}

std::string_view SymbolNames::Reader::at(std::uint32_t name, std::size_t max_bytes) {
  const std::size_t index = names_.part_of(name);
  if (index >= windows_.size()) return {};
  const Part& part = names_.parts_[index];
  return windows_[index].text_at(part.offset + (name - part.begin), part.offset + part.bytes, max_bytes);
}

}  // namespace spanfold::proc
