// SPDX-License-Identifier: Apache-2.0
// ELF files of a quarter of a megabyte, out of inputs that say which part of them repeats, and how often: whatever
// takes more than a fixed number of passes over a file shows only there.
#include "fuzz/elf_check.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spanfold;
  constexpr std::size_t kMostBytes = 1UL << 18;
  fuzz::Input input(data, size);
  const auto begin = input.take<std::uint16_t>();
  const auto length = input.take<std::uint16_t>();
  const auto times = input.take<std::uint16_t>();
  std::string bytes(input.rest());
  if (begin < bytes.size()) {
    const std::string part = bytes.substr(begin, length);
    const std::size_t most = part.empty() ? 0 : kMostBytes / part.size();
    std::string parts;
    for (std::size_t i = 0; i < std::min<std::size_t>(times, most); ++i) parts += part;
    bytes.insert(begin, parts);
  }
  const auto source = std::make_shared<fuzz::CountedSource>(bytes);
  const auto table = proc::SymbolTable::read(source);
  source->check_not_more_than(100);
  for (std::size_t i = 1; i < table.size(); ++i) {
    fuzz::check(table.start(i - 1) < table.start(i), "ranges are in order");
  }
  return 0;
}
