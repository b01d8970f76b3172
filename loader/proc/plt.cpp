// SPDX-License-Identifier: Apache-2.0
#include "proc/plt.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace spanfold::proc {
namespace {

constexpr std::uint64_t kMaxPltBytes = 16UL << 20;  // half a million stubs
constexpr std::uint64_t kMaxRelocationsRead = 16'000'000;
constexpr std::size_t kMaxRelocationsKept = 1'000'000;

template <typename Word>
Word word_at(std::string_view code, std::size_t at) {
  Word word;
  std::memcpy(&word, code.data() + at, sizeof word);
  return word;
}

bool has_at(std::string_view code, std::size_t at, std::string_view bytes) {
  return code.substr(std::min(at, code.size())).starts_with(bytes);
}

// [endbr64] then [bnd] jmp *slot(%rip), or push $index: the latter where the stub's second half lies in .plt.sec.
std::vector<PltJump> find_x86_64(std::string_view code, std::uint64_t address) {
  constexpr std::string_view kEndbr64("\xf3\x0f\x1e\xfa", 4);
  constexpr std::string_view kBnd("\xf2", 1);
  constexpr std::string_view kJump("\xff\x25", 2);
  constexpr std::string_view kPush("h", 1);
  constexpr std::size_t kShort = 8;
  constexpr std::size_t kLong = 16;
  std::vector<PltJump> jumps;
  for (std::size_t begin = 0; begin + kShort <= code.size(); begin += kShort) {
    std::size_t at = begin;
    if (has_at(code, at, kEndbr64)) at += kEndbr64.size();
    if (has_at(code, at, kBnd)) at += kBnd.size();
    PltJump jump{.address = address + begin};
    const bool jumps_now = has_at(code, at, kJump);
    if (!jumps_now && !has_at(code, at, kPush)) continue;
    at += jumps_now ? kJump.size() : kPush.size();
    if (at + sizeof(std::uint32_t) > code.size()) continue;
    const auto operand = word_at<std::uint32_t>(code, at);
    at += sizeof operand;
    if (jumps_now) {
      jump.slot = address + at + static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(operand)});
    } else {
      jump.index = operand;
    }
    // What does not fit, or goes on with the way to the dynamic linker, is long.
    const bool is_long = !jumps_now || at > begin + kShort || has_at(code, at, kPush);
    jump.bytes = is_long ? kLong : kShort;
    jumps.push_back(jump);
    if (is_long) begin += kShort;
  }
  return jumps;
}

// [bti c] adrp x16, page; ldr x17, [x16, #offset]; …; br x17
std::vector<PltJump> find_arm64(std::string_view code, std::uint64_t address) {
  constexpr std::size_t kWord = 4;
  constexpr std::uint32_t kBtiC = 0xd503245f;
  constexpr std::uint32_t kBrX17 = 0xd61f0220;
  constexpr std::size_t kMostWords = 6;
  std::vector<PltJump> jumps;
  const std::size_t words = code.size() / kWord;
  const auto word = [&](std::size_t index) { return word_at<std::uint32_t>(code, index * kWord); };
  for (std::size_t i = 0; i + 1 < words; ++i) {
    const std::uint32_t adrp = word(i);
    const std::uint32_t ldr = word(i + 1);
    if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211) continue;
    std::size_t end = i + 2;
    while (end < words && end < i + kMostWords && word(end) != kBrX17) ++end;
    if (end == words || word(end) != kBrX17) continue;
    const std::size_t begin = i > 0 && word(i - 1) == kBtiC ? i - 1 : i;
    // 21 bits, signed, of pages.
    const std::int64_t pages = static_cast<std::int32_t>(((adrp >> 5 & 0x7ffff) << 2 | (adrp >> 29 & 3)) << 11) >> 11;
    const std::uint64_t page =
        ((address + i * kWord) & ~std::uint64_t{0xfff}) + static_cast<std::uint64_t>(pages << 12);
    jumps.push_back({.address = address + begin * kWord,
                     .bytes = static_cast<std::uint32_t>((end + 1 - begin) * kWord),
                     .slot = page + std::uint64_t{ldr >> 10 & 0xfff} * 8});
    i = end;
  }
  return jumps;
}

struct Target {
  std::uint64_t slot = 0;
  std::uint64_t resolver = 0;
  std::uint32_t symbol = 0;  // index in .dynsym
};

struct Relocations {
  std::vector<Target> by_slot;
  std::vector<std::uint64_t> plt_slots;  // of .rela.plt, in its order

  [[nodiscard]] const Target* find(std::uint64_t slot) const {
    const auto place = std::lower_bound(by_slot.begin(), by_slot.end(), slot,
                                        [](const Target& target, std::uint64_t value) { return target.slot < value; });
    return place != by_slot.end() && place->slot == slot ? &*place : nullptr;
  }
};

// Types of relocations that fill a slot.
struct SlotTypes {
  std::uint32_t jump = 0;
  std::uint32_t data = 0;
  std::uint32_t chosen = 0;  // by a resolver
};

SlotTypes slot_types(std::uint16_t machine) {
  if (machine == EM_AARCH64) return {R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT, R_AARCH64_IRELATIVE};
  return {R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT, R_X86_64_IRELATIVE};
}

Relocations read_relocations(const ElfFile& elf, const ByteSource& source, const std::vector<Elf64_Shdr>& sections) {
  Relocations found;
  const SlotTypes types = slot_types(elf.machine());
  const auto plt = elf.section_named(".rela.plt");
  std::uint64_t budget = kMaxRelocationsRead;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_RELA || section.sh_entsize != sizeof(Elf64_Rela)) continue;
    const bool of_plt = plt && plt->sh_offset == section.sh_offset;
    const std::uint64_t count = std::min(section.sh_size / sizeof(Elf64_Rela), budget);
    budget -= count;
    each_item<Elf64_Rela>(source, section.sh_offset, count, [&](const Elf64_Rela& entry) {
      const std::uint64_t type = ELF64_R_TYPE(entry.r_info);
      if (found.by_slot.size() >= kMaxRelocationsKept || found.plt_slots.size() >= kMaxRelocationsKept) return;
      if (of_plt) found.plt_slots.push_back(entry.r_offset);
      Target target{.slot = entry.r_offset};
      if (type == types.chosen) target.resolver = static_cast<std::uint64_t>(entry.r_addend);
      if (type == types.jump || type == types.data)
        target.symbol = static_cast<std::uint32_t>(ELF64_R_SYM(entry.r_info));
      if (target.resolver != 0 || target.symbol != 0) found.by_slot.push_back(target);
    });
  }
  std::stable_sort(found.by_slot.begin(), found.by_slot.end(),
                   [](const Target& a, const Target& b) { return a.slot < b.slot; });
  return found;
}

// st_name by index.
std::vector<std::uint32_t> read_symbol_names(const ElfFile& elf, const std::vector<Elf64_Shdr>& sections) {
  std::vector<std::uint32_t> names;
  const auto table = std::find_if(sections.begin(), sections.end(),
                                  [](const Elf64_Shdr& section) { return section.sh_type == SHT_DYNSYM; });
  if (table == sections.end()) return names;
  elf.each_symbol(*table, [&](const Elf64_Sym& symbol) { names.push_back(symbol.st_name); });
  return names;
}

std::vector<PltJump> read_jumps(const ElfFile& elf, const ByteSource& source) {
  constexpr std::array<std::string_view, 4> kSections = {".plt", ".plt.sec", ".plt.bnd", ".plt.got"};
  std::vector<PltJump> jumps;
  for (const std::string_view name : kSections) {
    const auto section = elf.section_named(name);
    if (!section || (section->sh_flags & SHF_EXECINSTR) == 0) continue;
    std::string code(std::min({section->sh_size, kMaxPltBytes, source.size()}), '\0');
    code.resize(source.read_some(section->sh_offset, code));
    const auto more = find_plt_jumps(elf.machine(), code, section->sh_addr);
    jumps.insert(jumps.end(), more.begin(), more.end());
  }
  return jumps;
}

}  // namespace

std::vector<PltJump> find_plt_jumps(std::uint16_t machine, std::string_view code, std::uint64_t address) {
  switch (machine) {
    case EM_X86_64: return find_x86_64(code, address);
    case EM_AARCH64: return find_arm64(code, address);
    default: return {};
  }
}

std::vector<PltStub> read_plt(const ElfFile& elf, const ByteSource& source) {
  std::vector<PltStub> stubs;
  if (!elf.is_64_bit()) return stubs;
  const std::vector<PltJump> jumps = read_jumps(elf, source);
  if (jumps.empty()) return stubs;
  const std::vector<Elf64_Shdr> sections = elf.sections();
  const Relocations relocations = read_relocations(elf, source, sections);
  const std::vector<std::uint32_t> names = read_symbol_names(elf, sections);
  for (const PltJump& jump : jumps) {
    std::uint64_t slot = jump.slot;
    if (jump.index != PltJump::kNoIndex) {
      if (jump.index >= relocations.plt_slots.size()) continue;
      slot = relocations.plt_slots[jump.index];
    }
    const Target* target = relocations.find(slot);
    if (target == nullptr) continue;
    stubs.push_back({.address = jump.address,
                     .bytes = jump.bytes,
                     .name = target->symbol < names.size() ? names[target->symbol] : 0,
                     .resolver = target->resolver});
  }
  std::sort(stubs.begin(), stubs.end(), [](const PltStub& a, const PltStub& b) { return a.address < b.address; });
  return stubs;
}

}  // namespace spanfold::proc
