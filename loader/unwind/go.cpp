// SPDX-License-Identifier: Apache-2.0
#include "unwind/go.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "proc/elf_file.h"
#include "proc/go_table.h"
#include "unwind/table_writer.h"

namespace spanfold::unwind {
namespace {

constexpr std::int32_t kWord = 8;
constexpr std::uint64_t kMax32 = std::numeric_limits<std::uint32_t>::max();

// The frame of a function that has moved its stack pointer by `depth` bytes. Where there is any, the compiler keeps the
// caller's frame pointer at its top.
Rule rule_of(std::int64_t depth) {
  Rule rule{.cfa = Cfa::kStackPointer, .offset = static_cast<std::int32_t>(depth) + kWord, .ra_offset = -kWord};
  if (depth >= kWord) {
    rule.frame_pointer = SavedFramePointer::kAtCfa;
    rule.fp_offset = -2 * kWord;
  }
  return rule;
}

// systemstack, mcall, asmcgocall and their like call others on another stack; the frame pointer leads back. It is zero
// where nothing is to be found there: the scheduler runs, and another thread may run the goroutine meanwhile.
Rule switching_rule() {
  Rule rule = kFramePointerRule;
  rule.reg = UnwindRule::kSwitches;
  return rule;
}

// morestack and gogo switch stacks and have no frame: before they do, the stack is as their caller left it.
Rule frameless_switching_rule() {
  return {.cfa = Cfa::kStackPointer, .reg = UnwindRule::kSwitches, .offset = kWord, .ra_offset = -kWord};
}

// Where a handler returns to: the registers of whoever was interrupted lie in a ucontext_t (Linux, x86-64).
Rule signal_rule() {
  constexpr std::int32_t kRegisters = 40;  // uc_mcontext; r8 to r15 come first, then rdi and rsi
  constexpr std::int32_t kRbp = kRegisters + 10 * kWord;
  constexpr std::int32_t kRsp = kRegisters + 15 * kWord;
  return {.cfa = Cfa::kSignal, .offset = kRsp, .slot = kRbp, .ra_offset = kRsp + kWord};
}

// Varints out of the pc data; 0 for ever behind its end.
class Series {
 public:
  Series(proc::WindowReader& reader, std::uint64_t offset, std::uint64_t end)
      : reader_(reader), at_(offset), end_(end) {}

  std::uint64_t number() {
    constexpr int kMostBits = 35;
    std::uint64_t value = 0;
    for (int shift = 0; shift < kMostBits; shift += 7) {
      if (left_.empty()) refill();
      if (left_.empty()) return 0;
      const auto byte = static_cast<unsigned char>(left_.front());
      left_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) break;
    }
    return value;
  }

 private:
  void refill() {
    constexpr std::uint64_t kAtOnce = 64;
    if (at_ >= end_) return;
    left_ = reader_.bytes_at(at_, std::min(kAtOnce, end_ - at_));
    at_ += left_.size();
  }

  proc::WindowReader& reader_;
  std::uint64_t at_;
  std::uint64_t end_;
  std::string_view left_;
};

class Conversion {
 public:
  Conversion(const proc::GoTable& go, const proc::ByteSource& source)
      : go_(go), reader_(source), names_(source), writer_(go.text_begin()) {}

  void add(const proc::GoTable::Function& function) {
    if (function.begin < go_.text_begin() || function.end - go_.text_begin() > kMax32) return;
    end_ = at(function.end);
    const Name name = name_of(function);
    // From the byte before on: nobody calls it, its first address is what stands as a return address.
    if (name == Name::kSignalReturn && function.begin > go_.text_begin())
      return put(at(function.begin - 1), signal_rule());
    if (function.is_top && name != Name::kSignalHandler) return put(at(function.begin), {.cfa = Cfa::kBottom});
    if (function.stack == 0) return put(at(function.begin), function.switches ? switching_rule() : Rule{});
    if (function.switches) return add_switching(function);
    each_depth(function, [&](std::uint64_t address, std::int64_t depth) {
      Rule rule = depth < 0 ? Rule{} : rule_of(depth);
      if (depth >= 0 && name == Name::kInjected) rule.reg = UnwindRule::kInterrupted;
      put(at(address), rule);
    });
  }
  Table finish() && { return std::move(writer_).finish(end_); }

 private:
  enum class Name : std::uint8_t { kAny, kSignalHandler, kSignalReturn, kInjected };

  [[nodiscard]] std::uint32_t at(std::uint64_t address) const {
    return static_cast<std::uint32_t>(address - go_.text_begin());
  }
  void put(std::uint32_t start, const Rule& rule) { (void)writer_.put(start, rule); }

  Name name_of(const proc::GoTable::Function& function) {
    constexpr std::size_t kMostBytes = 32;
    const std::uint64_t names = go_.names_offset();
    const std::string_view name = names_.text_at(names + function.name, names + go_.names_bytes(), kMostBytes);
    if (name == "runtime.sigtramp") return Name::kSignalHandler;
    if (name == "runtime.sigreturn" || name == "runtime.sigreturn__sigaction") return Name::kSignalReturn;
    // A signal's handler makes it seem that whoever was interrupted had called these.
    if (name == "runtime.asyncPreempt" || name == "runtime.sigpanic") return Name::kInjected;
    return Name::kAny;
  }

  // take(address, depth): from there on the stack is so deep; -1: nobody knows.
  template <typename Take>
  void each_depth(const proc::GoTable::Function& function, Take take) {
    Series series(reader_, go_.pc_data_offset() + function.stack, go_.pc_data_offset() + go_.pc_data_bytes());
    std::uint64_t address = function.begin;
    std::int64_t depth = -1;
    while (address < function.end) {
      const std::uint64_t coded = series.number();
      if (coded == 0 && address != function.begin) break;
      depth += static_cast<std::int64_t>(coded >> 1U) ^ -static_cast<std::int64_t>(coded & 1U);
      const std::uint64_t bytes = series.number() * go_.instruction_bytes();
      if (depth < 0 || depth >= std::numeric_limits<std::int32_t>::max() || bytes == 0) break;
      take(address, depth);
      address += bytes;
    }
    constexpr std::uint64_t kLeastGap = 16;  // less is padding
    if (function.end >= address + kLeastGap) take(address, -1);
  }

  // The stack pointer tells the frame up to where it goes elsewhere, which is never while the frame is made.
  void add_switching(const proc::GoTable::Function& function) {
    constexpr std::uint64_t kMadeBytes = 16;  // of code, from where the stack pointer moves until all else is done
    std::uint64_t made = 0;
    each_depth(function, [&](std::uint64_t address, std::int64_t depth) {
      if (depth > 0 && made == 0) made = address + kMadeBytes;
    });
    const auto whole = [&](std::uint64_t address, std::int64_t depth) {
      if (depth < 0) return Rule{};
      if (made == 0) return frameless_switching_rule();
      return depth == 0 || address < made ? rule_of(depth) : switching_rule();
    };
    std::int64_t before = 0;
    each_depth(function, [&](std::uint64_t address, std::int64_t depth) {
      if (before > 0 && address > made) put(at(made), switching_rule());
      before = address < made ? depth : 0;
      put(at(address), whole(address, depth));
    });
    if (before > 0 && made < function.end) put(at(made), switching_rule());
  }

  const proc::GoTable& go_;
  proc::WindowReader reader_;
  proc::WindowReader names_;
  TableWriter writer_;
  std::uint32_t end_ = 0;
};

}  // namespace

std::optional<Table> read_go_table(const proc::ByteSource& source) {
  const auto elf = proc::ElfFile::read(source);
  if (!elf || elf->machine() != EM_X86_64) return {};
  const auto go = proc::GoTable::find(*elf, source);
  if (!go) return {};
  Conversion conversion(*go, source);
  go->each_function(source, [&](const proc::GoTable::Function& function) { conversion.add(function); });
  return std::move(conversion).finish();
}

Table laid_over(const Table& outer, const Table& inner) {
  if (outer.rows.empty() || inner.rows.empty()) return inner.rows.empty() ? outer : inner;
  const std::uint64_t base = std::min(outer.base + outer.rows.front().start, inner.base + inner.rows.front().start);
  const std::uint64_t begin = inner.base + inner.rows.front().start;
  const std::uint64_t end = inner.base + inner.rows.back().start;
  const std::uint64_t last = std::max(end, outer.base + outer.rows.back().start);
  TableWriter writer(base);
  const auto put = [&](std::uint64_t address, const Rule& rule) {
    if (address - base <= kMax32) (void)writer.put(static_cast<std::uint32_t>(address - base), rule);
  };
  const auto put_all = [&](const Table& table, std::uint64_t from, std::uint64_t to) {
    const Rule* before = nullptr;
    bool begun = false;
    for (const Row& row : table.rows) {
      const std::uint64_t address = table.base + row.start;
      if (address >= to) break;
      if (address > from && !begun && before != nullptr) put(from, *before);
      begun = begun || address > from;
      before = &table.rules[row.rule];
      if (address >= from) put(address, *before);
    }
    if (!begun && before != nullptr && from < to) put(from, *before);
  };
  put_all(outer, base, begin);
  put_all(inner, begin, end);
  put(end, {});
  put_all(outer, end, last);
  return std::move(writer).finish(static_cast<std::uint32_t>(std::min(last - base, kMax32)));
}

}  // namespace spanfold::unwind
