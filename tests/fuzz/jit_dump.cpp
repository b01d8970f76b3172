// SPDX-License-Identifier: Apache-2.0
// jit-PID.dump, read whole and while it grows. Its header is sound where the first byte says so.
#include "proc/jit_dump.h"

#include "fuzz/jit.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spanfold;
  fuzz::Input input(data, size);
  const bool sound = (input.take<std::uint8_t>() & 1) != 0;
  const auto seed = input.take<std::uint32_t>();
  std::string text;
  if (sound) {
    constexpr std::uint32_t kMagic = 0x4A695444;
    for (const std::uint32_t word : {kMagic, 1U, 40U, 62U, 0U, fuzz::kInnerPid, 0U, 0U, 0U, 0U}) {
      text.append(reinterpret_cast<const char*>(&word), sizeof word);
    }
  }
  text += input.rest();
  proc::JitDump reader(fuzz::kInnerPid);
  proc::JitTable table;
  if (!fuzz::read_whole(reader, text, table)) {
    fuzz::GrowingLog log(proc::JitLog::Form::kJitDump);
    log.append(text);
    fuzz::check(log.budget().given_up == 1 && !log.name(0x1000).first, "a log that makes no sense is given up");
    return 0;
  }
  table.settle(1UL << 20);
  fuzz::compare(proc::JitLog::Form::kJitDump, table, text, seed);
  return 0;
}
