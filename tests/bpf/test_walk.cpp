// SPDX-License-Identifier: Apache-2.0
// The walk over stacks that the test makes: the same frames and the same end as by a slow reading of the same rules.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "base/unwind.h"
#include "bpf/unwind_store.h"
#include "tests/bpf/walks.hpp"

using bodytest::kProcess;
using bodytest::Walks;
using spanfold::Cfa;
using spanfold::ReturnAddress;
using spanfold::SavedFramePointer;
using spanfold::UnwindRow;
using spanfold::UnwindRule;
using spanfold::UnwindTable;
using spanfold::bpf::UnwindRange;
using spanfold::bpf::UnwindSection;
using spanfold::bpf::UnwindStore;

namespace {

// Memory of the test that stands for a stack: nothing around it can be read.
class Stack {
 public:
  static constexpr std::size_t kBytes = 15UL * 4096;
  static constexpr std::size_t kAround = 1UL << 20;
  Stack()
      : around_(
            static_cast<char*>(::mmap(nullptr, kBytes + 2 * kAround, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
        memory_(around_ + kAround) {
    REQUIRE(::mprotect(memory_, kBytes, PROT_READ | PROT_WRITE) == 0);
  }
  ~Stack() { ::munmap(around_, kBytes + 2 * kAround); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  [[nodiscard]] std::uint64_t bottom() const { return reinterpret_cast<std::uint64_t>(memory_); }
  [[nodiscard]] std::uint64_t end() const { return bottom() + kBytes; }
  [[nodiscard]] bool can_read(std::uint64_t address) const {
    return address % 8 == 0 && address >= bottom() && address <= end() - 8;
  }
  [[nodiscard]] std::uint64_t read(std::uint64_t address) const {
    std::uint64_t value = 0;
    std::memcpy(&value, memory_ + (address - bottom()), sizeof value);
    return value;
  }
  void write(std::uint64_t address, std::uint64_t value) {
    std::memcpy(memory_ + (address - bottom()), &value, sizeof value);
  }

 private:
  char* around_;
  char* memory_;
};

// Code of the process, and what it is unwound by.
struct Code {
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
  UnwindRange::Kind kind = UnwindRange::Kind::kTable;
  UnwindTable table;
};

struct Walked {
  std::vector<std::uint64_t> frames;
  std::uint32_t end = SF_END_NO_USER;
  bool operator==(const Walked&) const = default;
};

// Reads the same rules one by one, and decides as bpf/README.md says.
class Naive {
 public:
  Naive(const Stack& stack, const std::vector<Code>& code, const sf_walk_io& io)
      : stack_(stack), code_(code), io_(io) {}

  Walked walk() {
    at_ = io_.at;
    exact_ = io_.exact != 0;
    while (walked_.end == SF_END_NO_USER) walked_.end = step();
    return walked_;
  }

 private:
  struct Found {
    std::uint32_t end = SF_END_NO_USER;
    UnwindRule rule;
  };

  std::uint32_t step() {
    if (walked_.frames.size() >= SF_USER_FRAMES) return SF_END_DEPTH;
    Found found = look_up(exact_ ? at_.pc : at_.pc - 1);
    const bool nothing = found.end == SF_END_NO_MAPPING || found.end == SF_END_NO_RULE;
    if (!exact_ && nothing) found = look_up(at_.pc);
    if (found.end == SF_END_NO_MAPPING && !walked_.frames.empty()) return SF_END_NO_MAPPING;
    walked_.frames.push_back(at_.pc);
    return found.end != SF_END_NO_USER ? found.end : apply(found.rule);
  }

  Found look_up(std::uint64_t address) const {
    for (const Code& code : code_) {
      if (address < code.start || address - code.start >= code.bytes) continue;
      if (code.kind == UnwindRange::Kind::kNoTable) return {.end = SF_END_NO_TABLE};
      if (code.kind == UnwindRange::Kind::kNoRule) return {.end = SF_END_NO_RULE};
      UnwindRule rule;
      for (const UnwindRow& row : code.table.rows) {
        if (row.start <= address - code.start) rule = code.table.rules[row.rule];
      }
      if (rule.cfa == Cfa::kNone) return {.end = SF_END_NO_RULE};
      if (rule.cfa == Cfa::kBottom) return {.end = SF_END_BOTTOM};
      if (rule.cfa == Cfa::kUnsupported) return {.end = SF_END_UNSUPPORTED};
      return {.rule = rule};
    }
    return {.end = SF_END_NO_MAPPING};
  }

  std::uint32_t apply(const UnwindRule& rule) {
    const bool innermost = walked_.frames.size() == 1;
    if (rule.cfa == Cfa::kSignal) return leave_signal(rule);
    const bool by_stack = rule.cfa == Cfa::kStackPointer;
    const bool switches = rule.reg == UnwindRule::kSwitches && (by_stack || rule.cfa == Cfa::kFramePointer);
    if (switches && at_.fp == 0 && !(by_stack && innermost)) return SF_END_BOTTOM;
    if (switches && by_stack && !innermost) return SF_END_NO_RULE;
    std::uint64_t cfa = 0;
    bool may_leave = switches && !by_stack;
    switch (rule.cfa) {
      case Cfa::kStackPointer:
        if (at_.sp == 0) return SF_END_ZERO;
        cfa = at_.sp + rule.offset;
        break;
      case Cfa::kFramePointer:
        if (at_.fp == 0) return SF_END_ZERO;
        cfa = at_.fp + rule.offset;
        break;
      case Cfa::kRegister:
        if (!innermost) return SF_END_UNSUPPORTED;
        cfa = io_.registers[rule.reg] + rule.offset;
        break;
      case Cfa::kPlt: cfa = at_.sp + (at_.pc % 16 >= static_cast<std::uint64_t>(rule.offset) ? 16 : 8); break;
      default: {
        const std::uint64_t slot = (rule.cfa == Cfa::kStackPointerSlot ? at_.sp : at_.fp) + rule.slot;
        if (!stack_.can_read(slot)) return SF_END_FAULT;
        cfa = stack_.read(slot) + rule.offset;
        may_leave = true;
      }
    }
    if (cfa <= at_.sp && !(may_leave && ++switches_ <= 4)) return SF_END_BAD_CFA;
    std::uint64_t fp = at_.fp;
    if (rule.frame_pointer == SavedFramePointer::kAtCfa || rule.frame_pointer == SavedFramePointer::kAtPointer) {
      const std::uint64_t saved = (rule.frame_pointer == SavedFramePointer::kAtCfa ? cfa : at_.fp) + rule.fp_offset;
      if (saved != 0) {
        if (!stack_.can_read(saved)) return SF_END_FAULT;
        fp = stack_.read(saved);
      }
    }
    if (rule.frame_pointer == SavedFramePointer::kUndefined) fp = 0;
    if (!stack_.can_read(cfa + rule.ra_offset)) return SF_END_FAULT;
    const std::uint64_t pc = stack_.read(cfa + rule.ra_offset);
    if (pc == 0) return SF_END_ZERO;
    at_ = {.pc = pc, .sp = cfa, .fp = fp};
    exact_ = by_stack && rule.reg == UnwindRule::kInterrupted;
    return SF_END_NO_USER;
  }

  std::uint32_t leave_signal(const UnwindRule& rule) {
    const auto saved = [&](std::int32_t offset) { return at_.sp + offset; };
    for (const std::int32_t offset : {rule.slot, rule.offset, rule.ra_offset}) {
      if (!stack_.can_read(saved(offset))) return SF_END_FAULT;
    }
    const sf_registers from{.pc = stack_.read(saved(rule.ra_offset)),
                            .sp = stack_.read(saved(rule.offset)),
                            .fp = stack_.read(saved(rule.slot))};
    if (from.sp <= at_.sp && ++switches_ > 4) return SF_END_BAD_CFA;
    at_ = from;
    exact_ = true;
    return SF_END_NO_USER;
  }

  const Stack& stack_;
  const std::vector<Code>& code_;
  const sf_walk_io& io_;
  sf_registers at_{};
  bool exact_ = false;
  int switches_ = 0;
  Walked walked_;
};

using Random = std::mt19937_64;

constexpr std::int32_t kWord = 8;

std::int32_t random_words(Random& random, unsigned most) { return static_cast<std::int32_t>(random() % most) * kWord; }

// The kinds that are rare.
void make_rare(Random& random, UnwindRule& rule) {
  constexpr std::array kPlain = {
      Cfa::kNone, Cfa::kBottom, Cfa::kUnsupported, Cfa::kRegister, Cfa::kStackPointerSlot, Cfa::kFramePointerSlot,
      Cfa::kPlt,  Cfa::kSignal};
  rule.cfa = kPlain.at(random() % kPlain.size());
  const std::int32_t slot = random_words(random, 20);
  if (rule.cfa == Cfa::kRegister) rule.reg = random() % 16;
  if (rule.cfa == Cfa::kStackPointerSlot || rule.cfa == Cfa::kSignal) rule.slot = slot;
  if (rule.cfa == Cfa::kFramePointerSlot) rule.slot = -slot;
  if (rule.cfa == Cfa::kPlt) rule.offset = static_cast<std::int32_t>(random() % 16);
  if (rule.cfa == Cfa::kSignal) rule.ra_offset = random_words(random, 20);
}

UnwindRule random_rule(Random& random) {
  UnwindRule rule{.cfa = Cfa::kStackPointer, .offset = kWord + random_words(random, 30), .ra_offset = -kWord};
  const std::uint64_t kind = random() % 23;
  if (kind < 8) make_rare(random, rule);
  if (kind == 8) rule.offset = 200'000;
  if (kind == 9) rule.offset = static_cast<std::int32_t>(random() % 64);
  if (kind >= 10 && kind < 15) {
    rule.cfa = Cfa::kFramePointer;
    rule.offset = 2 * kWord;
  }
  if (kind == 14 || kind == 15) rule.reg = UnwindRule::kSwitches;
  if (kind == 16) rule.reg = UnwindRule::kInterrupted;
  switch (random() % 8) {
    case 0: rule.frame_pointer = SavedFramePointer::kUndefined; break;
    case 1:
      rule.frame_pointer = SavedFramePointer::kAtPointer;
      rule.fp_offset = random_words(random, 4);
      break;
    case 2:
    case 3:
    case 4:
      rule.frame_pointer = SavedFramePointer::kAtCfa;
      rule.fp_offset = -kWord - random_words(random, 16);
      break;
    default: break;
  }
  return rule;
}

Code random_code(Random& random, std::uint64_t start) {
  Code code{.start = start, .bytes = 256 + random() % 20'000};
  const std::uint64_t kind = random() % 12;
  if (kind == 0) code.kind = UnwindRange::Kind::kNoTable;
  if (kind == 1) code.kind = UnwindRange::Kind::kNoRule;
  code.table.base = 0x400000 + random() % 5000;
  code.table.rules = {UnwindRule{}};
  for (int i = 0; i < 40; ++i) code.table.rules.push_back(random_rule(random));
  std::uint64_t at = random() % 4 == 0 ? random() % 300 : 0;
  const std::uint64_t dense = 1 + random() % 60;
  while (at < code.bytes) {
    code.table.rows.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(random() % 41)});
    at += 1 + random() % (random() % 30 == 0 ? 2000 : dense);
  }
  code.table.rows.push_back({static_cast<std::uint32_t>(code.bytes), 0});
  return code;
}

std::uint64_t address_in(Random& random, const std::vector<Code>& code) {
  const Code& some = code[random() % code.size()];
  return some.start + random() % (some.bytes + 2);
}

void tell(UnwindStore& store, const std::vector<Code>& code) {
  std::vector<UnwindRange> ranges;
  for (const Code& some : code) {
    if (some.kind != UnwindRange::Kind::kTable) {
      ranges.push_back({.start = some.start, .bytes = some.bytes, .kind = some.kind});
      continue;
    }
    const auto sections = store.add(some.table);
    REQUIRE(sections);
    const std::uint64_t shift = some.start - some.table.base;
    if (some.table.rows[0].start > 0)
      ranges.push_back({.start = some.start, .bytes = some.table.rows[0].start, .kind = UnwindRange::Kind::kNoRule});
    for (const UnwindSection& section : *sections) {
      ranges.push_back({.start = section.begin + shift,
                        .bytes = section.end - section.begin,
                        .kind = UnwindRange::Kind::kTable,
                        .section = section.number,
                        .serial = section.serial});
    }
  }
  REQUIRE(store.set_space(kProcess, ranges));
}

Walked walked_of(const sf_walk_io& io) { return {.frames = {io.frame, io.frame + io.frames}, .end = io.end}; }

}  // namespace

TEST_CASE("walk: random rules over random stacks, as by a slow reading") {
  Random random(3);
  std::map<std::uint32_t, int> ends;
  std::size_t frames = 0;
  for (int round = 0; round < 30; ++round) {
    Walks walks;
    std::vector<Code> code;
    std::uint64_t start = 0x7000'0000'0000;
    for (int i = 0; i < 12; ++i) {
      code.push_back(random_code(random, start));
      start += code.back().bytes + (random() % 3) * 4096;
    }
    tell(walks.store(), code);
    Stack stack;
    for (int turn = 0; turn < 400; ++turn) {
      for (std::uint64_t at = stack.bottom(); at < stack.end(); at += 8) {
        const std::uint64_t kind = random() % 40;
        stack.write(at, kind < 31   ? address_in(random, code)
                        : kind < 37 ? at + 8 * (random() % 60)
                        : kind < 38 ? 0
                        : kind < 39 ? stack.bottom() + 8 * (random() % (Stack::kBytes / 8))
                                    : random());
      }
      sf_walk_io io{};
      const std::uint64_t span = random() % 3 == 0 ? 600 : Stack::kBytes;
      io.at = {.pc = address_in(random, code), .sp = stack.end() - 8 * (1 + random() % (span / 8)), .fp = 0};
      io.at.fp = io.at.sp + 8 * (random() % 40);
      for (auto& value : io.registers) value = io.at.sp + 8 * (random() % 100);
      io.exact = random() % 2;
      const Walked naive = Naive(stack, code, io).walk();
      const Walked walked = walked_of(walks.walk(io));
      CAPTURE(round);
      CAPTURE(turn);
      REQUIRE(walked.end == naive.end);
      REQUIRE(walked.frames == naive.frames);
      ++ends[walked.end];
      frames += walked.frames.size();
    }
  }
  MESSAGE(frames, " frames of 12000 stacks");
  for (const auto end : {SF_END_BOTTOM, SF_END_NO_MAPPING, SF_END_NO_TABLE, SF_END_NO_RULE, SF_END_UNSUPPORTED,
                         SF_END_BAD_CFA, SF_END_FAULT, SF_END_ZERO}) {
    CAPTURE(end);
    CHECK(ends[end] > 20);
  }
}
