// SPDX-License-Identifier: Apache-2.0
// An ELF file: symbols, ids, stubs, packed symbols, Go's table, the link to a debug file.
#include "fuzz/elf_check.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spanfold;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto source = std::make_shared<fuzz::CountedSource>(bytes);
  const auto elf = proc::ElfFile::read(*source);
  if (elf) {
    const auto link = proc::read_debug_link(*elf, *source);
    fuzz::check(!link || fuzz::contains(bytes, link->name), "a link's name stands in the file");
    fuzz::check(!link || !fuzz::contains(link->name, "/"), "a link leads to no other folder");
    fuzz::check_table(proc::SymbolTable::read(source), bytes);
  }
  fuzz::ask(source, bytes);
  source->check_not_more_than(300);
  return 0;
}
