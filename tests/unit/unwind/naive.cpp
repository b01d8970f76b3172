// SPDX-License-Identifier: Apache-2.0
#include "naive.h"

#include <dwarf.h>
#include <fcntl.h>
#include <gelf.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <stdexcept>

namespace spanfold::unwind::test {

TrueFile::TrueFile(const std::string& path, bool by_debug_frame) : is_debug_(by_debug_frame) {
  elf_version(EV_CURRENT);
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  elf_ = elf_begin(descriptor_, ELF_C_READ_MMAP, nullptr);
  GElf_Ehdr header;
  std::size_t names = 0;
  if (elf_ == nullptr || gelf_getehdr(elf_, &header) == nullptr || elf_getshdrstrndx(elf_, &names) != 0) return;
  const auto machine = Machine::of(header.e_machine);
  if (!machine) return;
  machine_ = *machine;
  for (Elf_Scn* section = elf_nextscn(elf_, nullptr); section != nullptr; section = elf_nextscn(elf_, section)) {
    GElf_Shdr shape;
    gelf_getshdr(section, &shape);
    const char* name = elf_strptr(elf_, names, shape.sh_name);
    if (name == nullptr || std::string(name) != (is_debug_ ? ".debug_frame" : ".eh_frame")) continue;
    if ((shape.sh_flags & SHF_COMPRESSED) != 0) elf_compress(section, 0, 0);
    const Elf_Data* data = elf_rawdata(section, nullptr);
    if (data != nullptr && data->d_buf != nullptr) section_.assign(static_cast<const char*>(data->d_buf), data->d_size);
    section_address_ = shape.sh_addr;
  }
  if (is_debug_) dwarf_ = dwarf_begin_elf(elf_, DWARF_C_READ, nullptr);
  cfi_ = !is_debug_ ? dwarf_getcfi_elf(elf_) : dwarf_ != nullptr ? dwarf_getcfi(dwarf_) : nullptr;
}

TrueFile::~TrueFile() {
  if (!is_debug_ && cfi_ != nullptr) dwarf_cfi_end(cfi_);
  if (dwarf_ != nullptr) dwarf_end(dwarf_);
  if (elf_ != nullptr) elf_end(elf_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

namespace {

struct Machinery {
  const Dwarf_CIE& cie;
  NaiveRow row;
  std::map<std::uint64_t, NaivePlace> initial;
  std::vector<NaiveRow> stack;
  std::vector<NaiveRow>* out = nullptr;
  bool has_half_frame = false;

  std::int64_t factored(std::int64_t number) const { return number * cie.data_alignment_factor; }
  void move(std::uint64_t steps) {
    const std::uint64_t to = row.begin + steps * cie.code_alignment_factor;
    NaiveRow done = row;
    done.end = to;
    if (out != nullptr && done.begin < done.end) out->push_back(done);
    row.begin = to;
  }
  void one(Reader& reader);
  void of_frame(std::uint64_t operation, Reader& reader);
  void of_register(std::uint64_t operation, Reader& reader);
};

void Machinery::of_frame(std::uint64_t operation, Reader& reader) {
  const bool is_half = operation == DW_CFA_def_cfa_register || operation == DW_CFA_def_cfa_offset ||
                       operation == DW_CFA_def_cfa_offset_sf;
  // An offset alone leaves an expression in force.
  const bool is_offset = operation == DW_CFA_def_cfa_offset || operation == DW_CFA_def_cfa_offset_sf;
  if (is_half && !row.frame_expression.empty()) has_half_frame = true;
  if (!is_offset) row.has_frame = true;
  if (!is_offset) row.frame_expression.clear();
  if (operation == DW_CFA_def_cfa || operation == DW_CFA_def_cfa_sf || operation == DW_CFA_def_cfa_register) {
    row.frame_register = reader.uleb();
  }
  if (operation == DW_CFA_def_cfa || operation == DW_CFA_def_cfa_offset) {
    row.frame_offset = static_cast<std::int64_t>(reader.uleb());
  }
  if (operation == DW_CFA_def_cfa_sf || operation == DW_CFA_def_cfa_offset_sf)
    row.frame_offset = factored(reader.sleb());
  if (operation == DW_CFA_def_cfa_expression) row.frame_expression = reader.block(reader.uleb());
}

void Machinery::of_register(std::uint64_t operation, Reader& reader) {
  const std::uint64_t reg = reader.uleb();
  const auto number = [&] { return static_cast<std::int64_t>(reader.uleb()); };
  switch (operation) {
    case DW_CFA_offset_extended: row.places[reg] = {NaivePlace::kOffset, factored(number()), {}}; break;
    case DW_CFA_offset_extended_sf: row.places[reg] = {NaivePlace::kOffset, factored(reader.sleb()), {}}; break;
    case DW_CFA_GNU_negative_offset_extended: row.places[reg] = {NaivePlace::kOffset, -factored(number()), {}}; break;
    case DW_CFA_val_offset: row.places[reg] = {NaivePlace::kValue, factored(number()), {}}; break;
    case DW_CFA_val_offset_sf: row.places[reg] = {NaivePlace::kValue, factored(reader.sleb()), {}}; break;
    case DW_CFA_restore_extended: row.places[reg] = initial[reg]; break;
    case DW_CFA_undefined: row.places[reg] = {NaivePlace::kUndefined, 0, {}}; break;
    case DW_CFA_same_value: row.places[reg] = {NaivePlace::kSame, 0, {}}; break;
    case DW_CFA_register: row.places[reg] = {NaivePlace::kRegister, number(), {}}; break;
    case DW_CFA_expression:
      row.places[reg] = {NaivePlace::kExpression, 0, std::string(reader.block(reader.uleb()))};
      break;
    case DW_CFA_val_expression:
      row.places[reg] = {NaivePlace::kValueExpression, 0, std::string(reader.block(reader.uleb()))};
      break;
    default: throw std::runtime_error("what instruction is " + std::to_string(operation));
  }
}

void Machinery::one(Reader& reader) {
  const std::uint64_t operation = reader.fixed(1);
  if (operation >= 0xc0) {
    row.places[operation - 0xc0] = initial[operation - 0xc0];
  } else if (operation >= 0x80) {
    row.places[operation - 0x80] = {NaivePlace::kOffset, factored(static_cast<std::int64_t>(reader.uleb())), {}};
  } else if (operation >= 0x40) {
    move(operation - 0x40);
  } else if (operation >= DW_CFA_advance_loc1 && operation <= DW_CFA_advance_loc4) {
    move(reader.fixed(1 << (operation - DW_CFA_advance_loc1)));
  } else if (operation == DW_CFA_remember_state) {
    stack.push_back(row);
  } else if (operation == DW_CFA_restore_state) {
    const std::uint64_t here = row.begin;
    row = stack.at(stack.size() - 1);
    row.begin = here;
    stack.pop_back();
  } else if (operation == DW_CFA_GNU_args_size) {
    reader.uleb();
  } else if ((operation >= DW_CFA_def_cfa && operation <= DW_CFA_def_cfa_expression) ||
             operation == DW_CFA_def_cfa_sf || operation == DW_CFA_def_cfa_offset_sf) {
    of_frame(operation, reader);
  } else if (operation != DW_CFA_nop && operation != DW_CFA_AARCH64_negate_ra_state) {
    of_register(operation, reader);
  }
}

// Only the encodings that compilers use.
std::uint64_t address_of(Reader& reader, int encoding, std::uint64_t here) {
  if (encoding == DW_EH_PE_absptr) return reader.fixed(8);
  if (encoding == (DW_EH_PE_pcrel | DW_EH_PE_sdata4)) return here + static_cast<std::uint64_t>(reader.fixed_signed(4));
  if (encoding == DW_EH_PE_udata4) return reader.fixed(4);
  if (encoding == DW_EH_PE_sdata4) return static_cast<std::uint64_t>(reader.fixed_signed(4));
  if (encoding == (DW_EH_PE_pcrel | DW_EH_PE_sdata8)) return here + reader.fixed(8);
  if (encoding == DW_EH_PE_sdata8) return reader.fixed(8);
  throw std::runtime_error("what encoding is " + std::to_string(encoding));
}

int encoding_of(const Dwarf_CIE& cie) {
  if (cie.augmentation == nullptr) return DW_EH_PE_absptr;
  Reader reader({reinterpret_cast<const char*>(cie.augmentation_data), cie.augmentation_data_size});
  for (const char* letter = cie.augmentation; *letter != '\0'; ++letter) {
    if (*letter == 'R') return static_cast<int>(reader.fixed(1));
    if (*letter == 'L') reader.fixed(1);
    if (*letter != 'P') continue;
    const int personality = static_cast<int>(reader.fixed(1)) & 0x0f;
    reader.fixed(personality == DW_EH_PE_udata4 || personality == DW_EH_PE_sdata4 ? 4 : 8);
  }
  return DW_EH_PE_absptr;
}

}  // namespace

void TrueFile::each_function(const std::function<void(const NaiveFunction&)>& take) const {
  std::size_t ident_bytes = 0;
  const auto* ident = reinterpret_cast<const unsigned char*>(elf_getident(elf_, &ident_bytes));
  Elf_Data data{};
  data.d_buf = const_cast<char*>(section_.data());
  data.d_type = ELF_T_BYTE;
  data.d_version = EV_CURRENT;
  data.d_size = section_.size();
  std::map<Dwarf_Off, Dwarf_CIE> cies;
  Dwarf_Off at = 0;
  while (at < section_.size()) {
    Dwarf_CFI_Entry entry;
    Dwarf_Off next = 0;
    const int state = dwarf_next_cfi(ident, &data, !is_debug_, at, &next, &entry);
    if (state < 0) throw std::runtime_error("libdw cannot read an entry");
    if (state > 0 || next == static_cast<Dwarf_Off>(-1)) return;
    if (dwarf_cfi_cie_p(&entry)) {
      cies[at] = entry.cie;
    } else {
      const Dwarf_CIE& cie = cies.at(entry.fde.CIE_pointer);
      const auto* begin = reinterpret_cast<const char*>(entry.fde.start);
      const auto* end = reinterpret_cast<const char*>(entry.fde.end);
      Reader reader({begin, static_cast<std::size_t>(end - begin)});
      const int encoding = encoding_of(cie);
      const std::uint64_t here = section_address_ + static_cast<std::uint64_t>(begin - section_.data());
      NaiveFunction function;
      function.begin = address_of(reader, encoding, here);
      function.end = function.begin + address_of(reader, encoding & 0x0f, 0);
      const std::string letters = cie.augmentation == nullptr ? "" : cie.augmentation;
      function.is_signal_frame = letters.find('S') != std::string::npos;
      if (!letters.empty() && letters[0] == 'z') reader.block(reader.uleb());
      Machinery machinery{cie, {}, {}, {}, nullptr, false};
      Reader shared({reinterpret_cast<const char*>(cie.initial_instructions),
                     static_cast<std::size_t>(cie.initial_instructions_end - cie.initial_instructions)});
      while (!shared.at_end()) machinery.one(shared);
      machinery.initial = machinery.row.places;
      machinery.row.begin = function.begin;
      machinery.out = &function.rows;
      while (!reader.at_end()) machinery.one(reader);
      machinery.row.end = function.end;
      function.has_half_frame = machinery.has_half_frame;
      if (machinery.row.begin < function.end) function.rows.push_back(machinery.row);
      take(function);
    }
    at = next;
  }
}

Truth TrueFile::truth_of(const NaiveRow& row, const World& world, std::uint64_t address) const {
  Truth truth;
  auto place_of = [&](std::uint64_t reg) {
    const auto found = row.places.find(reg);
    return found == row.places.end() ? NaivePlace{} : found->second;
  };
  const NaivePlace ra = place_of(machine_.return_address);
  const NaivePlace fp = place_of(machine_.frame_pointer);
  if (ra.kind == NaivePlace::kUndefined) {
    truth.caller = {.is_known = true, .is_bottom = true};
    truth.is_plain = true;
    return truth;
  }
  std::optional<std::uint64_t> frame;
  if (row.has_frame && row.frame_expression.empty()) frame = world.reg(row.frame_register) + row.frame_offset;
  if (row.has_frame && !row.frame_expression.empty()) {
    frame = evaluate(decode_expression(row.frame_expression), world, address, machine_, 0, false);
  }
  if (!frame) return truth;
  const auto value_of = [&](const NaivePlace& place, std::uint64_t reg) -> std::optional<std::uint64_t> {
    const auto computed = [&] {
      return evaluate(decode_expression(place.expression), world, address, machine_, *frame, true);
    };
    switch (place.kind) {
      case NaivePlace::kUndefined: return {};
      case NaivePlace::kOffset: return world.memory(*frame + place.number);
      case NaivePlace::kValue: return *frame + place.number;
      case NaivePlace::kRegister: return world.reg(place.number);
      case NaivePlace::kExpression: {
        const auto at = computed();
        if (!at) return {};
        return world.memory(*at);
      }
      case NaivePlace::kValueExpression: return computed();
      default: return world.reg(reg);
    }
  };
  truth.caller = {.is_known = true,
                  .stack_pointer = *frame,
                  .return_address = value_of(ra, machine_.return_address),
                  .frame_pointer = value_of(fp, machine_.frame_pointer)};
  const bool is_pushed = ra.kind == NaivePlace::kOffset && (machine_.is_arm64 || ra.number == -8);
  const bool is_in_link = machine_.is_arm64 && (ra.kind == NaivePlace::kUnsaid || ra.kind == NaivePlace::kSame);
  truth.is_plain = row.frame_expression.empty() && (is_pushed || is_in_link);
  truth.has_plain_frame_pointer = fp.kind <= NaivePlace::kOffset;
  return truth;
}

bool TrueFile::ask_libdw(std::uint64_t address, const World& world, Truth& truth, std::uint64_t& begin,
                         std::uint64_t& end) const {
  Dwarf_Frame* raw = nullptr;
  if (dwarf_cfi_addrframe(cfi_, address, &raw) != 0) return false;
  const std::unique_ptr<Dwarf_Frame, decltype(&::free)> frame(raw, &::free);
  Dwarf_Addr from = 0;
  Dwarf_Addr to = 0;
  bool is_signal = false;
  dwarf_frame_info(frame.get(), &from, &to, &is_signal);
  begin = from;
  end = to;
  truth = {};
  Dwarf_Op* operations = nullptr;
  std::size_t count = 0;
  const auto copied = [&] {
    std::vector<Operation> copy;
    for (std::size_t i = 0; i < count; ++i) {
      copy.push_back({operations[i].atom, operations[i].number, operations[i].number2});
    }
    return copy;
  };
  Dwarf_Op memory[3];
  const auto ask = [&](int reg) {
    const int state = dwarf_frame_register(frame.get(), reg, memory, &operations, &count);
    if (state != 0) count = 0;
    return state == 0;
  };
  // No operations and no list: it is unchanged; no operations in the given list: undefined.
  if (ask(machine_.return_address) && count == 0 && operations == memory) {
    truth.caller = {.is_known = true, .is_bottom = true};
    truth.is_plain = true;
    return true;
  }
  if (dwarf_frame_cfa(frame.get(), &operations, &count) != 0 || count == 0) return true;
  const auto cfa = copied();
  const auto found = evaluate(cfa, world, address, machine_, 0, false);
  if (!found) return true;
  truth.caller = {.is_known = true, .stack_pointer = *found};
  bool is_offset = false;
  bool is_unchanged = false;
  const auto value_of = [&](int reg) -> std::optional<std::uint64_t> {
    is_offset = is_unchanged = false;
    if (!ask(reg)) return {};
    if (count == 0) {
      is_unchanged = operations == nullptr;
      return is_unchanged ? std::optional(world.reg(static_cast<std::uint64_t>(reg))) : std::nullopt;
    }
    const auto listed = copied();
    if (listed.size() == 1 && listed[0].atom == DW_OP_regx) return world.reg(listed[0].first);
    is_offset = operations == memory && listed.back().atom != DW_OP_stack_value;
    const auto at = evaluate(listed, world, address, machine_, *found, operations != memory);
    if (!at) return {};
    return listed.back().atom == DW_OP_stack_value ? *at : world.memory(*at);
  };
  truth.caller.return_address = value_of(machine_.return_address);
  const bool is_pushed = is_offset && (machine_.is_arm64 || truth.caller.return_address == world.memory(*found - 8));
  truth.is_plain = cfa.size() == 1 && (is_pushed || (machine_.is_arm64 && is_unchanged));
  truth.caller.frame_pointer = value_of(machine_.frame_pointer);
  truth.has_plain_frame_pointer = is_offset || is_unchanged;
  return true;
}

}  // namespace spanfold::unwind::test
