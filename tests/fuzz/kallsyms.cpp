// SPDX-License-Identifier: Apache-2.0
// /proc/kallsyms, whole and in pieces, and /proc/modules.
#include "proc/kallsyms.h"

#include <charconv>

#include "fuzz/fuzz.h"
#include "proc/kernel_code.h"

namespace {

// Every address that a line begins with, and what lies around it.
template <typename Take>
void each_address(std::string_view text, Take take) {
  while (!text.empty()) {
    std::uint64_t address = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), address, 16).ec == std::errc{}) {
      for (const std::uint64_t near : {address - 1, address, address + 1, address + 4096}) take(near);
    }
    const std::size_t newline = text.find('\n');
    text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spanfold;
  fuzz::Input input(data, size);
  const auto seed = input.take<std::uint32_t>();
  const std::string_view text = input.rest();
  proc::Kallsyms whole;
  whole.feed(text);
  whole.finish();
  proc::Kallsyms parts;
  fuzz::in_pieces(text, seed, 61, [&](std::string_view piece) { parts.feed(piece); });
  parts.finish();
  fuzz::check(whole.size() == parts.size(), "pieces say what the whole says");
  std::uint64_t start = 0;
  for (const proc::Kallsyms::Module& module : whole.modules()) {
    fuzz::check(module.start >= start && module.start <= module.end, "modules are in order");
    start = module.start;
  }
  each_address(text, [&](std::uint64_t address) {
    const auto found = whole.find(address);
    const auto same = parts.find(address);
    fuzz::check(found.name == same.name && found.module_offset == same.module_offset, "pieces say what the whole says");
    fuzz::check(found.name.empty() || found.module != nullptr, "what has a name lies in a module");
    fuzz::check(fuzz::contains(text, found.name), "a name stands in the file");
  });
  (void)proc::modules_in(text);
  return 0;
}
