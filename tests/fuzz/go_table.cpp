// SPDX-License-Identifier: Apache-2.0
// Go's line table, in an ELF file that is sound.
#include "fuzz/elf_check.h"
#include "fuzz/elf_maker.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spanfold;
  fuzz::Input input(data, size);
  const auto kind = input.take<std::uint8_t>();
  const std::string_view module = (kind & 2) != 0 ? input.text(24 * 8) : std::string_view();
  const std::string_view relocations = (kind & 4) != 0 ? input.text(24 * 3) : std::string_view();
  const std::string bytes = fuzz::make_elf(
      {{.name = (kind & 1) != 0 ? ".data.rel.ro" : ".gopclntab", .address = 0x500000, .bytes = input.rest()},
       {.name = ".go.buildinfo"},
       {.name = ".go.module", .address = 0x600000, .bytes = module},
       {.name = ".rela", .type = SHT_RELA, .bytes = relocations, .entry_bytes = sizeof(Elf64_Rela)}});
  const auto source = std::make_shared<fuzz::CountedSource>(bytes);
  const auto elf = proc::ElfFile::read(*source);
  fuzz::check(elf.has_value(), "the file around the table is sound");
  const auto table = proc::GoTable::find(*elf, *source);
  if (!table) return 0;
  std::uint64_t end = 0;
  table->each_function(*source, [&](const proc::GoTable::Function& function) {
    fuzz::check(function.begin >= end && function.end > function.begin, "functions are in order");
    fuzz::check(table->holds(function.begin) && table->holds(function.end - 1), "functions are within the text");
    fuzz::check(function.name < table->names_bytes(), "a name lies among the names");
    end = function.end;
  });
  fuzz::check_table(proc::SymbolTable::read(source), bytes);
  source->check_not_more_than(300);
  return 0;
}
