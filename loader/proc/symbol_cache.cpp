// SPDX-License-Identifier: Apache-2.0
#include "proc/symbol_cache.h"

#include <algorithm>

namespace spanfold::proc {
namespace {

std::shared_ptr<RecordedSource> recorded(const std::shared_ptr<const ByteSource>& source) {
  return source ? std::make_shared<RecordedSource>(source) : nullptr;
}

}  // namespace

std::size_t SymbolCache::Entry::memory_bytes() const {
  return sizeof(Entry) + sizeof(SharedSymbols) + symbols->table.memory_bytes() + file->memory_bytes() +
         (debug_file ? debug_file->memory_bytes() : 0);
}

bool SymbolCache::Entry::is_of(const SymbolSources& sources, std::uint64_t& budget_bytes) const {
  if ((debug_file == nullptr) != (sources.debug_file == nullptr)) return false;
  return file->reads_like(*sources.file, budget_bytes) &&
         (!debug_file || debug_file->reads_like(*sources.debug_file, budget_bytes));
}

std::shared_ptr<SharedSymbols> SymbolCache::of(const std::string& build_id, const SymbolSources& sources) {
  std::erase_if(entries_, [&](const Entry& entry) {
    return entry.build_id == build_id &&
           (!entry.file->unchanged() || (entry.debug_file && !entry.debug_file->unchanged()));
  });
  std::uint64_t budget_bytes = kMostCompared;
  for (const Entry& entry : entries_) {
    if (entry.build_id != build_id || !entry.is_of(sources, budget_bytes)) continue;
    note_use(*entry.symbols);
    return entry.symbols;
  }
  Entry entry{build_id, recorded(sources.file), recorded(sources.debug_file), std::make_shared<SharedSymbols>()};
  entry.symbols->table = SymbolTable::read(entry.file, entry.debug_file);
  ++tables_read_;
  for (const auto& source : {entry.file, entry.debug_file}) {
    if (!source) continue;
    entry.symbols->table.names().each_of(*source, [&](auto offset, auto bytes) { source->include(offset, bytes); });
    source->stop();
  }
  note_use(*entry.symbols);
  auto symbols = entry.symbols;
  entries_.push_back(std::move(entry));
  make_room();
  return symbols;
}

void SymbolCache::make_room() {
  std::size_t held = memory_bytes() + beside_bytes_;
  while (held > most_bytes_ && entries_.size() > 1) {
    const auto oldest = std::min_element(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
      return a.symbols->last_use < b.symbols->last_use;
    });
    held -= oldest->memory_bytes();
    entries_.erase(oldest);
  }
}

void SymbolCache::drop_unused() {
  std::erase_if(entries_, [](const Entry& entry) { return entry.file->is_alone(); });
}

std::size_t SymbolCache::memory_bytes() const {
  std::size_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.memory_bytes();
  return bytes;
}

std::size_t SymbolCache::open_files() const {
  std::size_t files = 0;
  for (const Entry& entry : entries_) files += (entry.file->is_alone() ? 1U : 0U) + (entry.debug_file ? 1U : 0U);
  return files;
}

}  // namespace spanfold::proc
