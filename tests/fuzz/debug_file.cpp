// SPDX-License-Identifier: Apache-2.0
// A program and what may be its debug file, one behind the other in one input.
#include "fuzz/elf_check.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spanfold;
  fuzz::Input input(data, size);
  const auto length = input.take<std::uint16_t>();
  const std::string_view program = input.text(length);
  const std::string_view debug = input.rest();
  const std::string both = std::string(program) + std::string(debug);
  const auto source = std::make_shared<fuzz::CountedSource>(program);
  const auto debug_source = std::make_shared<fuzz::CountedSource>(debug);
  // As if it had been found to belong, which is harder to make than a file that does harm.
  fuzz::check_table(proc::SymbolTable::read(source, debug_source), both);
  const auto elf = proc::ElfFile::read(*source);
  if (!elf) return 0;
  const auto link = proc::read_debug_link(*elf, *source);
  std::vector<proc::DebugCandidate> candidates = {{debug_source, {}}};
  if (link) candidates.push_back({debug_source, link->crc});
  const auto chosen = proc::choose_debug_file(candidates, *elf);
  if (chosen) {
    const auto chosen_elf = proc::ElfFile::read(*chosen);
    fuzz::check(chosen_elf && chosen_elf->is_laid_out_as(*elf), "a debug file is laid out as its program");
    fuzz::check(link || chosen_elf->build_ids().gnu == elf->build_ids().gnu, "without a link, ids are equal");
    fuzz::check_table(proc::SymbolTable::read(source, chosen), both);
  }
  source->check_not_more_than(300);
  debug_source->check_not_more_than(300);
  return 0;
}
