// SPDX-License-Identifier: Apache-2.0
// /proc/kallsyms: the functions of the kernel, its modules, and what it made at run time (BPF programs, trampolines).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proc/symbol_ranges.h"

namespace spanfold::proc {

// Lines "address type name[\t[module]]" (kernel/kallsyms.c), sorted or not. Only text symbols (t, T, w, W) become
// names. A symbol ends where the next one of any type begins; "__pfx_…" symbols (padding before functions) end one but
// name nothing; the last one of a module ends with its page; that of the kernel with _etext. Aliases as in
// symbol_table.h: T before W before t, then the better name.
class Kallsyms {
 public:
  struct Module {
    std::uint64_t start = 0;  // of its first text symbol
    std::uint64_t end = 0;    // behind its last one
    std::uint64_t base = 0;   // start of the first of the ranges with this name: modules may have several
    std::string name;         // "[kernel]", "[nf_tables]", "[bpf]", "[__builtin__ftrace]"
  };
  struct Found {
    const Module* module = nullptr;   // null: the address lies in none
    std::string_view name;            // empty: no symbol covers it
    std::uint64_t module_offset = 0;  // bytes after the module's base
  };

  // Takes text that arrives in pieces, cut anywhere; then finish() once.
  void feed(std::string_view piece);
  void finish();

  [[nodiscard]] Found find(std::uint64_t address) const;
  // All addresses were zero: kernel.kptr_restrict hides them from this process.
  [[nodiscard]] bool hidden() const { return lines_ > 0 && !any_address_; }
  [[nodiscard]] std::size_t size() const { return ranges_.size(); }
  [[nodiscard]] const std::vector<Module>& modules() const { return modules_; }
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  static constexpr std::size_t kMaxSymbols = 4'000'000;
  struct Line {
    std::uint64_t address = 0;
    std::uint32_t name = 0;  // offset in names_; kNoName for what only ends others
    std::uint16_t module = 0;
    std::uint8_t rank = 0;
  };
  static constexpr std::uint32_t kNoName = ~std::uint32_t{0};

  void take(std::string_view line);
  void extend_module(std::uint64_t start, std::uint64_t end, const std::string& name);
  std::uint16_t module_index(std::string_view name);
  [[nodiscard]] std::string_view name_at(std::uint32_t offset) const;
  // Where `symbol` ends if symbols_[next] is the first one behind it.
  [[nodiscard]] std::uint64_t end_of(const Line& symbol, std::size_t next) const;
  [[nodiscard]] bool better(const Line& a, const Line& b) const;

  std::string rest_;
  std::vector<Line> symbols_;  // while reading
  std::vector<std::string> module_names_;
  std::uint64_t etext_ = 0;
  std::uint64_t lines_ = 0;
  bool any_address_ = false;

  std::string names_;  // NUL-terminated
  SymbolRanges ranges_;
  std::vector<Module> modules_;  // by start
};

}  // namespace spanfold::proc
