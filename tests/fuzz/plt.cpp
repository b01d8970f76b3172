// SPDX-License-Identifier: Apache-2.0
// Stubs, relocations and dynamic symbols, in an ELF file that is sound.
#include "proc/plt.h"

#include "fuzz/elf_check.h"
#include "fuzz/elf_maker.h"

namespace {

// As many bytes as the next one of the input says, eight to one.
std::string_view part_of(spanfold::fuzz::Input& input) { return input.text(8UL * input.take<std::uint8_t>()); }

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spanfold;
  fuzz::Input input(data, size);
  const bool arm = (input.take<std::uint8_t>() & 1) != 0;
  const std::string_view symbols = part_of(input);
  const std::string_view relocations = part_of(input);
  const std::string_view more = part_of(input);
  const std::string_view names = part_of(input);
  const std::string_view code = input.rest();
  constexpr std::uint64_t kExecutable = SHF_ALLOC | SHF_EXECINSTR;
  std::string bytes = fuzz::make_elf(
      {{.name = ".dynsym", .type = SHT_DYNSYM, .bytes = symbols, .entry_bytes = sizeof(Elf64_Sym), .link = 2},
       {.name = ".dynstr", .type = SHT_STRTAB, .bytes = names},
       {.name = ".rela.plt", .type = SHT_RELA, .bytes = relocations, .entry_bytes = sizeof(Elf64_Rela)},
       {.name = ".rela.dyn", .type = SHT_RELA, .bytes = more, .entry_bytes = sizeof(Elf64_Rela)},
       {.name = ".plt", .flags = kExecutable, .address = fuzz::kCodeAddress, .bytes = code},
       {.name = ".plt.sec", .flags = kExecutable, .address = fuzz::kCodeAddress + 0x800, .bytes = code.substr(0, 64)}});
  if (arm) reinterpret_cast<Elf64_Ehdr*>(bytes.data())->e_machine = EM_AARCH64;
  const auto source = std::make_shared<fuzz::CountedSource>(bytes);
  const auto elf = proc::ElfFile::read(*source);
  fuzz::check(elf.has_value(), "the file around the stubs is sound");
  std::uint64_t last = 0;
  for (const proc::PltStub& stub : proc::read_plt(*elf, *source)) {
    fuzz::check(stub.address >= last && stub.bytes > 0, "stubs are in order");
    last = stub.address;
  }
  fuzz::check_table(proc::SymbolTable::read(source), bytes);
  source->check_not_more_than(300);
  return 0;
}
