// SPDX-License-Identifier: Apache-2.0
// The strings that the names of one symbol table come from, wherever they lie, as one space of 32-bit offsets. They
// stay there until somebody asks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proc/byte_source.h"
#include "proc/symbol_ranges.h"

namespace spanfold::proc {

class SymbolNames {
 public:
  static constexpr std::size_t kMaxNameBytes = 16UL * 1024;  // what is longer is cut

  // Adds the strings in `bytes` bytes of `source`, as far as it reaches; each reads with `suffix`, which must be a
  // literal, behind it. Gives where they begin, the same for the same ones; none where there are none, or no room is
  // left.
  std::optional<std::uint32_t> add(std::shared_ptr<const ByteSource> source, std::uint64_t offset, std::uint64_t bytes,
                                   std::string_view suffix = {});

  // The same string with `suffix` behind it; none where there is none.
  std::optional<std::uint32_t> with_suffix(std::uint32_t name, std::string_view suffix);

  // Read now, up to its NUL; empty where that fails.
  [[nodiscard]] std::string at(std::uint32_t name) const;

  // False once somebody has written into a source.
  [[nodiscard]] bool unchanged() const;

  // Gives offset and bytes of all strings that lie in `source`.
  void each_of(const ByteSource& source, const std::function<void(std::uint64_t, std::uint64_t)>& take) const;

  // Copies those strings of `source` that `ranges` name, so that nothing needs `source` any more, and turns the ranges
  // to the copies.
  void keep_only_named(const ByteSource& source, std::vector<SymbolRange>& ranges);
  // What it holds in memory.
  [[nodiscard]] std::size_t memory_bytes() const { return memory_bytes_; }

  // A quick look at many: the beginning of a name, without its suffix. Valid until the next call.
  class Reader {
   public:
    explicit Reader(const SymbolNames& names);
    [[nodiscard]] std::string_view at(std::uint32_t name, std::size_t max_bytes);
    // How often files were asked.
    [[nodiscard]] std::uint64_t reads() const;

   private:
    const SymbolNames& names_;
    std::vector<WindowReader> windows_;  // by part
  };

 private:
  struct Part {
    std::shared_ptr<const ByteSource> source;
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
    std::uint32_t begin = 0;
    std::string_view suffix;
  };
  // The part that holds `name`; parts_.size() where none does.
  [[nodiscard]] std::size_t part_of(std::uint32_t name) const;

  std::vector<Part> parts_;  // a handful, by begin
  std::size_t memory_bytes_ = 0;
};

}  // namespace spanfold::proc
