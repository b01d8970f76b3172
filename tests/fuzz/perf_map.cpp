// SPDX-License-Identifier: Apache-2.0
// /tmp/perf-PID.map, read whole and while it grows.
#include "proc/perf_map.h"

#include "fuzz/jit.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spanfold;
  fuzz::Input input(data, size);
  const auto seed = input.take<std::uint32_t>();
  const std::string_view text = input.rest();
  proc::PerfMap reader;
  proc::JitTable table;
  fuzz::check(fuzz::read_whole(reader, text, table), "no text makes a reader give up");
  table.settle(1UL << 20);
  fuzz::compare(proc::JitLog::Form::kPerfMap, table, text, seed);
  table.settle(3);
  fuzz::check(table.size() <= 3, "a bound is kept");
  return 0;
}
