// SPDX-License-Identifier: Apache-2.0
// What each call-frame instruction and each known expression becomes.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "image.h"
#include "unwind/table_writer.h"
#include "world.h"

namespace spanfold {

// Where the type lives: doctest looks there, for this name.
// NOLINTNEXTLINE(readability-identifier-naming)
static doctest::String toString(const UnwindRule& rule) { return unwind::test::text_of(rule).c_str(); }

}  // namespace spanfold

namespace spanfold::unwind {
namespace test {
namespace {

constexpr Rule kEntry{.cfa = Cfa::kStackPointer, .offset = 8, .ra_offset = -8};
constexpr Rule kLost{.cfa = Cfa::kUnsupported};
constexpr Rule kNothing{};

Rule by_stack(std::int32_t offset) { return {.cfa = Cfa::kStackPointer, .offset = offset, .ra_offset = -8}; }
Rule by_frame(std::int32_t offset) { return {.cfa = Cfa::kFramePointer, .offset = offset, .ra_offset = -8}; }
Rule with_saved(Rule rule, SavedFramePointer saved, std::int32_t offset = 0) {
  rule.frame_pointer = saved;
  rule.fp_offset = offset;
  return rule;
}

Table table_with(const std::string& instructions, const CieShape& cie = {}, const ImageShape& image = {}) {
  Frames frames;
  frames.cie(cie);
  frames.function(Frames::kText, 0x100, instructions);
  const auto table = table_of_image(image_of(frames.bytes(), image));
  REQUIRE(table.has_value());
  return *table;
}

// The rule at the second byte of the function: `instructions` come after one byte of code.
Rule rule_after(const Writer& instructions, const CieShape& cie = {}, const ImageShape& image = {}) {
  const Table table = table_with(ops().byte(DW_CFA_advance_loc + 1).text(instructions.bytes()).bytes(), cie, image);
  return rule_at(table, Frames::kText + 1);
}

Rule rule_of_frame(const Writer& expression, const CieShape& cie = {}) {
  return rule_after(ops().byte(DW_CFA_def_cfa_expression).block(expression.bytes()), cie);
}

Rule rule_of_saved(const Writer& expression) {
  return rule_after(ops().byte(DW_CFA_expression).uleb(6).block(expression.bytes()));
}

}  // namespace

TEST_CASE("cfi: a function without instructions is what its CIE says, and nothing is known behind it") {
  const Table table = table_with("");
  CHECK(table.base == Frames::kText);
  CHECK(table.rows == std::vector<Row>{{0, 1}, {0x100, 0}});
  CHECK(table.rules == std::vector<Rule>{kNothing, kEntry});
  CHECK(table.unsupported_rows == 0);
  CHECK(table.left_out == 0);
}

TEST_CASE("cfi: a prologue, an early return and what goes on behind it") {
  const Writer code = ops()
                          .byte(DW_CFA_advance_loc + 1)
                          .byte(DW_CFA_def_cfa_offset)
                          .uleb(16)
                          .byte(DW_CFA_offset + 6)
                          .uleb(2)
                          .byte(DW_CFA_advance_loc + 3)
                          .byte(DW_CFA_def_cfa_register)
                          .uleb(6)
                          .byte(DW_CFA_advance_loc1)
                          .byte(0x20)
                          .byte(DW_CFA_remember_state)
                          .byte(DW_CFA_def_cfa)
                          .uleb(7)
                          .uleb(8)
                          .byte(DW_CFA_restore + 6)
                          .byte(DW_CFA_advance_loc + 1)
                          .byte(DW_CFA_restore_state)
                          .byte(DW_CFA_nop);
  const Table table = table_with(code.bytes());
  const Rule saved = with_saved(by_stack(16), SavedFramePointer::kAtCfa, -16);
  const Rule body = with_saved(by_frame(16), SavedFramePointer::kAtCfa, -16);
  CHECK(table.rules == std::vector<Rule>{kNothing, kEntry, saved, body});
  CHECK(table.rows == std::vector<Row>{{0, 1}, {1, 2}, {4, 3}, {0x24, 1}, {0x25, 3}, {0x100, 0}});
}

TEST_CASE("cfi: every way to advance") {
  const auto start_after = [](const Writer& advance, std::uint64_t code_alignment = 1) {
    CieShape cie;
    cie.code_alignment = code_alignment;
    const Table table = table_with(ops().text(advance.bytes()).byte(DW_CFA_def_cfa_offset).uleb(16).bytes(), cie);
    return table.rows.size() == 3 ? table.rows[1].start : 0;
  };
  CHECK(start_after(ops().byte(DW_CFA_advance_loc + 0x3f)) == 0x3f);
  CHECK(start_after(ops().byte(DW_CFA_advance_loc + 0x3f), 4) == 0xfc);
  CHECK(start_after(ops().byte(DW_CFA_advance_loc1).byte(0xff)) == 0xff);
  CHECK(start_after(ops().byte(DW_CFA_advance_loc2).fixed(0x21, 2)) == 0x21);
  CHECK(start_after(ops().byte(DW_CFA_advance_loc4).fixed(0x22, 4)) == 0x22);
  CHECK(start_after(ops().byte(0x1d).fixed(0x23, 8)) == 0x23);
  CHECK(start_after(ops().byte(DW_CFA_advance_loc + 4).byte(DW_CFA_advance_loc + 0).byte(DW_CFA_advance_loc + 5)) == 9);
  // Beyond the end there is nothing to say.
  CHECK(start_after(ops().byte(DW_CFA_advance_loc4).fixed(0x100, 4)) == 0);
  CHECK(start_after(ops().byte(DW_CFA_advance_loc4).fixed(0xffffffff, 4), ~0ULL) == 0);
  // An address, in the encoding of the function's own: from here, where "here" is behind 17 bytes of the entry.
  Frames frames;
  const std::size_t cie = frames.cie();
  CHECK(cie == 0);
  const std::uint64_t here = Frames::kAddress + frames.bytes().size() + 17 + 1;
  frames.function(
      Frames::kText, 0x100,
      ops().byte(DW_CFA_set_loc).fixed(Frames::kText + 0x30 - here, 4).byte(DW_CFA_def_cfa_offset).uleb(24).bytes());
  const auto table = table_of_image(image_of(frames.bytes()));
  REQUIRE(table.has_value());
  CHECK(rule_at(*table, Frames::kText + 0x2f) == kEntry);
  CHECK(rule_at(*table, Frames::kText + 0x30) == by_stack(24));
}

TEST_CASE("cfi: every way to say the frame address") {
  CHECK(rule_after(ops().byte(DW_CFA_def_cfa).uleb(6).uleb(16)) == by_frame(16));
  CHECK(rule_after(ops().byte(DW_CFA_def_cfa_sf).uleb(6).sleb(-3)) == by_frame(24));
  CHECK(rule_after(ops().byte(DW_CFA_def_cfa_sf).uleb(7).sleb(2)) == by_stack(-16));
  CHECK(rule_after(ops().byte(DW_CFA_def_cfa_offset).uleb(300)) == by_stack(300));
  CHECK(rule_after(ops().byte(DW_CFA_def_cfa_offset_sf).sleb(-5)) == by_stack(40));
  CHECK(rule_after(ops().byte(DW_CFA_def_cfa_register).uleb(6)) == by_frame(8));
  const Rule other{.cfa = Cfa::kRegister, .reg = 10, .offset = 8, .ra_offset = -8};
  CHECK(rule_after(ops().byte(DW_CFA_def_cfa_register).uleb(10)) == other);
  CHECK(rule_after(ops().byte(DW_CFA_def_cfa_register).uleb(255)).reg == 255);
  CHECK(rule_after(ops().byte(DW_CFA_def_cfa_register).uleb(256)) == kLost);
  CHECK(rule_after(ops().byte(DW_CFA_def_cfa_register).uleb(65536 + 7)) == kLost);
  // A frame that never was.
  CieShape empty;
  empty.instructions = ops().byte(DW_CFA_offset + 16).uleb(1).bytes();
  CHECK(rule_after(ops(), empty) == kLost);
  CHECK(rule_after(ops().byte(DW_CFA_def_cfa_offset).uleb(8), empty) == kLost);
}

TEST_CASE("cfi: offsets of 32 bits are kept whole, wider ones are no rule") {
  CHECK(rule_after(ops().byte(DW_CFA_def_cfa_offset).uleb(40'000)) == by_stack(40'000));
  CHECK(rule_after(ops().byte(DW_CFA_def_cfa_offset).uleb(0x7fffffff)) == by_stack(0x7fffffff));
  CHECK(rule_after(ops().byte(DW_CFA_def_cfa_offset).uleb(0x80000000)) == kLost);
  CHECK(rule_after(ops().byte(DW_CFA_def_cfa_offset).uleb(~0ULL)) == by_stack(-1));
  const Rule wide = with_saved(by_stack(1'200'008), SavedFramePointer::kAtCfa, -1'200'000);
  CHECK(rule_after(ops().byte(DW_CFA_def_cfa_offset).uleb(1'200'008).byte(DW_CFA_offset + 6).uleb(150'000)) == wide);
  CHECK(rule_after(ops().byte(DW_CFA_offset + 6).uleb(1ULL << 32)) ==
        with_saved(kEntry, SavedFramePointer::kUndefined));
}

TEST_CASE("cfi: every way to say where the frame pointer is") {
  const auto saved = [](std::int32_t offset) { return with_saved(kEntry, SavedFramePointer::kAtCfa, offset); };
  const Rule undefined = with_saved(kEntry, SavedFramePointer::kUndefined);
  CHECK(rule_after(ops().byte(DW_CFA_offset + 6).uleb(2)) == saved(-16));
  CHECK(rule_after(ops().byte(DW_CFA_offset_extended).uleb(6).uleb(3)) == saved(-24));
  CHECK(rule_after(ops().byte(DW_CFA_offset_extended_sf).uleb(6).sleb(-3)) == saved(24));
  CHECK(rule_after(ops().byte(DW_CFA_GNU_negative_offset_extended).uleb(6).uleb(3)) == saved(24));
  CHECK(rule_after(ops().byte(DW_CFA_undefined).uleb(6)) == undefined);
  CHECK(rule_after(ops().byte(DW_CFA_register).uleb(6).uleb(3)) == undefined);
  CHECK(rule_after(ops().byte(DW_CFA_val_offset).uleb(6).uleb(3)) == undefined);
  CHECK(rule_after(ops().byte(DW_CFA_val_offset_sf).uleb(6).sleb(3)) == undefined);
  CHECK(rule_after(ops().byte(DW_CFA_val_expression).uleb(6).block(ops().byte(DW_OP_breg6).sleb(0).bytes())) ==
        undefined);
  const Writer save = ops().byte(DW_CFA_offset + 6).uleb(2);
  const auto then = [&](const Writer& more) { return rule_after(Writer(save).text(more.bytes())); };
  CHECK(then(ops().byte(DW_CFA_same_value).uleb(6)) == kEntry);
  CHECK(then(ops().byte(DW_CFA_restore + 6)) == kEntry);
  CHECK(then(ops().byte(DW_CFA_restore_extended).uleb(6)) == kEntry);
  CHECK(then(ops().byte(DW_CFA_restore + 3)) == saved(-16));
  // What the CIE says is what comes back.
  CieShape cie;
  cie.instructions += ops().byte(DW_CFA_offset + 6).uleb(5).bytes();
  CHECK(rule_after(Writer(save).byte(DW_CFA_restore + 6), cie) == saved(-40));
  // Other registers are nobody's affair, whatever is said of them.
  for (const int reg : {0, 3, 12, 15, 17, 63, 1000}) {
    CHECK(rule_after(ops().byte(DW_CFA_offset_extended).uleb(reg).uleb(9)) == kEntry);
    CHECK(rule_after(ops().byte(DW_CFA_register).uleb(reg).uleb(9)) == kEntry);
    CHECK(rule_after(ops().byte(DW_CFA_val_expression).uleb(reg).block("abc")) == kEntry);
  }
  CHECK(rule_after(ops().byte(DW_CFA_GNU_args_size).uleb(48)) == kEntry);
}

TEST_CASE("cfi: the return address is where calls put it, or undefined, or nobody knows") {
  CHECK(rule_after(ops().byte(DW_CFA_undefined).uleb(16)) == Rule{.cfa = Cfa::kBottom});
  CHECK(rule_after(ops().byte(DW_CFA_offset + 16).uleb(2)) == kLost);
  CHECK(rule_after(ops().byte(DW_CFA_register).uleb(16).uleb(5)) == kLost);
  CHECK(rule_after(ops().byte(DW_CFA_same_value).uleb(16)) == kLost);
  CHECK(rule_after(ops().byte(DW_CFA_val_offset).uleb(16).uleb(1)) == kLost);
  // The same place in other words: memory at rsp, where the frame address is rsp + 8.
  CHECK(rule_after(ops().byte(DW_CFA_expression).uleb(16).block(ops().byte(DW_OP_breg7).sleb(0).bytes())) == kEntry);
  CHECK(rule_after(ops().byte(DW_CFA_expression).uleb(16).block(ops().byte(DW_OP_breg7).sleb(8).bytes())) == kLost);
  CieShape other_column;
  other_column.return_address = 5;
  const Table table = table_with("", other_column);
  CHECK(rule_at(table, Frames::kText) == kLost);
  CHECK(table.unsupported_rows == 1);
  CieShape silent;
  silent.instructions = ops().byte(DW_CFA_def_cfa).uleb(7).uleb(8).bytes();
  CHECK(rule_after(ops(), silent) == kLost);
}

TEST_CASE("cfi: expressions for the frame address") {
  const Rule slot{.cfa = Cfa::kFramePointerSlot, .slot = -8, .ra_offset = -8};
  CHECK(rule_of_frame(ops().byte(DW_OP_breg6).sleb(-8).byte(DW_OP_deref)) == slot);
  CHECK(rule_of_frame(ops().byte(DW_OP_bregx).uleb(6).sleb(-8).byte(DW_OP_deref)) == slot);
  const Rule pushed{.cfa = Cfa::kStackPointerSlot, .offset = 56, .slot = 536, .ra_offset = -8};
  const auto deep = [] { return ops().byte(DW_OP_breg7).sleb(536).byte(DW_OP_deref); };
  CHECK(rule_of_frame(deep().byte(DW_OP_plus_uconst).uleb(56)) == pushed);
  CHECK(rule_of_frame(deep().byte(DW_OP_const1u).byte(56).byte(DW_OP_plus)) == pushed);
  CHECK(rule_of_frame(deep().byte(DW_OP_consts).sleb(-56).byte(DW_OP_minus)) == pushed);
  CHECK(rule_of_frame(deep().byte(DW_OP_const2s).fixed(56, 2).byte(DW_OP_plus).byte(DW_OP_nop)) == pushed);
  CHECK(rule_of_frame(deep().byte(DW_OP_lit0 + 31).byte(DW_OP_plus).byte(DW_OP_lit0 + 25).byte(DW_OP_plus)) == pushed);
  CHECK(rule_of_frame(ops()
                          .byte(DW_OP_breg7)
                          .sleb(500)
                          .byte(DW_OP_plus_uconst)
                          .uleb(36)
                          .byte(DW_OP_deref)
                          .byte(DW_OP_const4u)
                          .fixed(56, 4)
                          .byte(DW_OP_plus)) == pushed);
  CHECK(rule_of_frame(ops().byte(DW_OP_breg7).sleb(24)) == by_stack(24));
  CHECK(rule_of_frame(ops().byte(DW_OP_breg6).sleb(8).byte(DW_OP_plus_uconst).uleb(8)) == by_frame(16));
  // Not these: other registers in memory, memory of memory, anything else.
  CHECK(rule_of_frame(ops().byte(DW_OP_breg3).sleb(-8).byte(DW_OP_deref)) == kLost);
  CHECK(rule_of_frame(deep().byte(DW_OP_deref)) == kLost);
  CHECK(rule_of_frame(deep().byte(DW_OP_plus)) == kLost);
  CHECK(rule_of_frame(deep().byte(DW_OP_lit0 + 3)) == kLost);
  CHECK(rule_of_frame(deep().byte(DW_OP_lit0 + 3).byte(DW_OP_mul)) == kLost);
  CHECK(rule_of_frame(ops().byte(DW_OP_lit0 + 1)) == kLost);
  CHECK(rule_of_frame(ops()) == kLost);
  CHECK(rule_of_frame(ops().byte(DW_OP_breg7)) == kLost);
  CHECK(rule_of_frame(deep().byte(DW_OP_plus_uconst).byte(0x80)) == kLost);
  CHECK(rule_of_frame(deep().byte(DW_OP_plus_uconst).uleb(1ULL << 40)) == kLost);
  CHECK(rule_of_frame(ops().byte(DW_OP_breg7).sleb(INT64_MAX).byte(DW_OP_plus_uconst).uleb(1)) == kLost);
}

TEST_CASE("cfi: a register or an offset alone after an expression") {
  const Writer expression = ops()
                                .byte(DW_CFA_def_cfa_offset)
                                .uleb(56)
                                .byte(DW_CFA_def_cfa_expression)
                                .block(ops().byte(DW_OP_breg7).sleb(16).byte(DW_OP_deref).bytes());
  const Rule slot{.cfa = Cfa::kStackPointerSlot, .slot = 16, .ra_offset = -8};
  CHECK(rule_after(Writer(expression)) == slot);
  CHECK(rule_after(Writer(expression).byte(DW_CFA_def_cfa_register).uleb(7)) == by_stack(56));
  CHECK(rule_after(Writer(expression).byte(DW_CFA_def_cfa_offset).uleb(32)) == slot);
  CHECK(rule_after(Writer(expression).byte(DW_CFA_def_cfa_offset).uleb(32).byte(DW_CFA_def_cfa_register).uleb(7)) ==
        by_stack(32));
}

TEST_CASE("cfi: procedure linkage tables") {
  const auto plt = [](int from, int mask = 15) {
    return ops()
        .byte(DW_OP_breg7)
        .sleb(8)
        .byte(DW_OP_breg16)
        .sleb(0)
        .byte(DW_OP_lit0 + mask)
        .byte(DW_OP_and)
        .byte(DW_OP_lit0 + from)
        .byte(DW_OP_ge)
        .byte(DW_OP_lit3)
        .byte(DW_OP_shl)
        .byte(DW_OP_plus);
  };
  for (const int from : {11, 10, 9, 6, 0, 15}) {
    CHECK(rule_of_frame(plt(from)) == Rule{.cfa = Cfa::kPlt, .offset = from, .ra_offset = -8});
  }
  CHECK(rule_of_frame(plt(16)) == kLost);
  CHECK(rule_of_frame(plt(11, 14)) == kLost);
  CHECK(rule_of_frame(Writer(plt(11)).byte(DW_OP_nop)) == kLost);
}

TEST_CASE("cfi: expressions for the saved frame pointer") {
  CHECK(rule_of_saved(ops().byte(DW_OP_breg6).sleb(0)) == with_saved(kEntry, SavedFramePointer::kAtPointer, 0));
  CHECK(rule_of_saved(ops().byte(DW_OP_breg6).sleb(-72)) == with_saved(kEntry, SavedFramePointer::kAtPointer, -72));
  CHECK(rule_of_saved(ops().byte(DW_OP_bregx).uleb(6).sleb(-72)) ==
        with_saved(kEntry, SavedFramePointer::kAtPointer, -72));
  // By rsp, as is the frame address: rsp + 8.
  CHECK(rule_of_saved(ops().byte(DW_OP_breg7).sleb(-16)) == with_saved(kEntry, SavedFramePointer::kAtCfa, -24));
  // The frame address is on the stack when it begins.
  CHECK(rule_of_saved(ops().byte(DW_OP_plus_uconst).uleb(24)) == with_saved(kEntry, SavedFramePointer::kAtCfa, 24));
  CHECK(rule_of_saved(ops().byte(DW_OP_const1s).byte(0xe8).byte(DW_OP_plus)) ==
        with_saved(kEntry, SavedFramePointer::kAtCfa, -24));
  const Rule undefined = with_saved(kEntry, SavedFramePointer::kUndefined);
  CHECK(rule_of_saved(ops().byte(DW_OP_breg3).sleb(0)) == undefined);
  CHECK(rule_of_saved(ops().byte(DW_OP_breg6).sleb(0).byte(DW_OP_deref)) == undefined);
  CHECK(rule_of_saved(ops().byte(DW_OP_breg6).sleb(1LL << 40)) == undefined);
  CHECK(rule_of_saved(ops().byte(0xff)) == undefined);
  // Realigned, as GCC writes it: the frame by a slot of rbp, the saved rbp at rbp itself.
  CHECK(
      rule_after(ops()
                     .byte(DW_CFA_def_cfa_expression)
                     .block(ops().byte(DW_OP_breg6).sleb(-8).byte(DW_OP_deref).bytes())
                     .byte(DW_CFA_expression)
                     .uleb(6)
                     .block(ops().byte(DW_OP_breg6).sleb(0).bytes())) ==
      Rule{.cfa = Cfa::kFramePointerSlot, .frame_pointer = SavedFramePointer::kAtPointer, .slot = -8, .ra_offset = -8});
}

TEST_CASE("cfi: the trampoline of signals") {
  CieShape cie;
  cie.letters = "zRS";
  const auto at = [](std::uint64_t reg, std::int64_t offset, int base = 7) {
    return ops()
        .byte(DW_CFA_expression)
        .uleb(reg)
        .block(ops().byte(static_cast<std::uint64_t>(DW_OP_breg0 + base)).sleb(offset).bytes());
  };
  const auto frame = [](int base = 7) {
    return ops()
        .byte(DW_CFA_def_cfa_expression)
        .block(ops().byte(static_cast<std::uint64_t>(DW_OP_breg0 + base)).sleb(160).byte(DW_OP_deref).bytes());
  };
  const Rule signal{.cfa = Cfa::kSignal, .offset = 160, .slot = 120, .ra_offset = 168};
  const auto all = frame().text(at(6, 120).bytes()).text(at(16, 168).bytes());
  CHECK(rule_after(all, cie) == signal);
  CHECK(rule_after(frame().text(at(6, 120).bytes()), cie) == kLost);
  CHECK(rule_after(frame().text(at(6, 120, 6).bytes()).text(at(16, 168).bytes()), cie) == kLost);
  CHECK(rule_after(frame(6).text(at(6, 120).bytes()).text(at(16, 168).bytes()), cie) == kLost);
  const Writer beside =
      ops()
          .byte(DW_CFA_def_cfa_expression)
          .block(ops().byte(DW_OP_breg7).sleb(160).byte(DW_OP_deref).byte(DW_OP_plus_uconst).uleb(8).bytes());
  CHECK(rule_after(Writer(beside).text(at(6, 120).bytes()).text(at(16, 168).bytes()), cie) == kLost);
  // A signal frame of another kind: a rule for calls would be wrong there.
  CHECK(rule_after(ops(), cie) == kLost);
  // And the same words without the letter are no signal frame.
  CHECK(rule_after(all) == kLost);
}

TEST_CASE("cfi: what cannot be understood is unsupported from there on, and counted") {
  for (const Writer& bad :
       {ops().byte(0x17), ops().byte(0x3f), ops().byte(DW_CFA_AARCH64_negate_ra_state),
        ops().byte(DW_CFA_restore_state), ops().byte(DW_CFA_def_cfa_offset),
        ops().byte(DW_CFA_def_cfa_offset).text("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),
        ops().byte(DW_CFA_def_cfa_expression).uleb(100).byte(DW_OP_breg7), ops().byte(DW_CFA_advance_loc4).byte(1),
        ops().byte(DW_CFA_set_loc).fixed(0 - Frames::kAddress, 4)}) {
    const Writer code = ops().byte(DW_CFA_advance_loc + 8).byte(DW_CFA_def_cfa_offset).uleb(24).text(bad.bytes());
    const Table table = table_with(code.bytes());
    CHECK(rule_at(table, Frames::kText + 7) == kEntry);
    CHECK(rule_at(table, Frames::kText + 8) == kLost);
    CHECK(rule_at(table, Frames::kText + 0xff) == kLost);
    CHECK(table.unsupported_rows == 1);
    CHECK(table.rows.size() == 3);
  }
  // As many states as there is room for, and one more.
  const auto remembered = [](int times) {
    return rule_after(ops().text(std::string(static_cast<std::size_t>(times), DW_CFA_remember_state)));
  };
  CHECK(remembered(16) == kEntry);
  CHECK(remembered(17) == kLost);
}

TEST_CASE("cfi: arm64") {
  ImageShape arm;
  arm.machine = EM_AARCH64;
  CieShape cie;
  cie.return_address = 30;
  cie.code_alignment = 4;
  cie.instructions = ops().byte(DW_CFA_def_cfa).uleb(31).uleb(0).bytes();
  const Rule leaf{.cfa = Cfa::kStackPointer, .return_address = ReturnAddress::kInRegister};
  const auto after = [&](const Writer& code, const CieShape& shape) {
    return rule_at(table_with(ops().byte(DW_CFA_advance_loc + 1).text(code.bytes()).bytes(), shape, arm),
                   Frames::kText + 4);
  };
  CHECK(after(ops(), cie) == leaf);
  const Writer pushed = ops()
                            .byte(DW_CFA_AARCH64_negate_ra_state)
                            .byte(DW_CFA_def_cfa_offset)
                            .uleb(32)
                            .byte(DW_CFA_offset + 29)
                            .uleb(4)
                            .byte(DW_CFA_offset + 30)
                            .uleb(3);
  const Rule frame{.cfa = Cfa::kStackPointer,
                   .frame_pointer = SavedFramePointer::kAtCfa,
                   .offset = 32,
                   .fp_offset = -32,
                   .ra_offset = -24};
  CHECK(after(pushed, cie) == frame);
  Rule by_x29 = frame;
  by_x29.cfa = Cfa::kFramePointer;
  CHECK(after(Writer(pushed).byte(DW_CFA_def_cfa_register).uleb(29), cie) == by_x29);
  CHECK(after(Writer(pushed).byte(DW_CFA_restore + 30).byte(DW_CFA_restore + 29).byte(DW_CFA_def_cfa_offset).uleb(0),
              cie) == leaf);
  CHECK(after(ops().byte(DW_CFA_undefined).uleb(30), cie) == Rule{.cfa = Cfa::kBottom});
  CHECK(after(ops().byte(DW_CFA_register).uleb(30).uleb(17), cie) == kLost);
  // The letter of pointers signed with the other key, and of tagged memory.
  CieShape keyed = cie;
  keyed.letters = "zRBG";
  CHECK(after(pushed, keyed) == frame);
  // A signal frame of arm64 says where the frame record is, not where the interrupted function is.
  keyed.letters = "zRS";
  CHECK(after(pushed, keyed) == kLost);
}

}  // namespace test
}  // namespace spanfold::unwind
