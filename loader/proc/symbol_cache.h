// SPDX-License-Identifier: Apache-2.0
// The symbol tables that are in use, within a budget of memory. Copies of one file, in as many containers as there are,
// share one: files with the same build id and the same bytes in all that the table was read from. The build id alone
// would not do: whoever writes a file can give it the id of another, and its names to everybody.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proc/byte_source.h"
#include "proc/recorded_source.h"
#include "proc/symbol_table.h"

namespace spanfold::proc {

struct SymbolSources {
  std::shared_ptr<const ByteSource> file;
  std::shared_ptr<const ByteSource> debug_file;  // that belongs to it for certain; null: none
};

// One table, shared by those who ask for it; it goes when it was not used for longest and room is needed.
struct SharedSymbols {
  SymbolTable table;
  std::uint64_t last_use = 0;  // a count
};

class SymbolCache {
 public:
  static constexpr std::size_t kUsualBytes = 16UL << 20;  // 1.3 million symbols
  // A tenth of a second. Files that say many sparse gigabytes of names, and differ at their end, would cost many.
  static constexpr std::uint64_t kMostCompared = 256UL << 20;
  explicit SymbolCache(std::size_t most_bytes = kUsualBytes) : most_bytes_(most_bytes) {}

  // The table of `sources`: of a copy, as far as kMostCompared tells one, or read now. Keep it as a weak pointer only,
  // or it cannot go. One that is larger than the whole budget is kept while no other is read.
  [[nodiscard]] std::shared_ptr<SharedSymbols> of(const std::string& build_id, const SymbolSources& sources);
  // Of the budget, somebody else's table takes `bytes`: the kernel's.
  void leave_room_for(std::size_t bytes) {
    beside_bytes_ = bytes;
    make_room();
  }
  void note_use(SharedSymbols& symbols) { symbols.last_use = ++uses_; }

  // Drops those whose files nobody else holds open.
  void drop_unused();
  void clear() { entries_.clear(); }

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::size_t memory_bytes() const;
  [[nodiscard]] std::uint64_t tables_read() const { return tables_read_; }
  // Descriptors that only tables hold.
  [[nodiscard]] std::size_t open_files() const;

 private:
  struct Entry {
    std::string build_id;
    std::shared_ptr<RecordedSource> file;
    std::shared_ptr<RecordedSource> debug_file;
    std::shared_ptr<SharedSymbols> symbols;
    [[nodiscard]] std::size_t memory_bytes() const;
    [[nodiscard]] bool is_of(const SymbolSources& sources, std::uint64_t& budget_bytes) const;
  };
  void make_room();

  std::size_t most_bytes_;
  std::size_t beside_bytes_ = 0;
  std::vector<Entry> entries_;
  std::uint64_t uses_ = 0;
  std::uint64_t tables_read_ = 0;
};

}  // namespace spanfold::proc
