// SPDX-License-Identifier: Apache-2.0
// The other program of brief.h.
#include "brief.h"

[[WORKLOAD_KEEP]] void decoy_work(std::uint64_t cpu_ns) { workload::burn(cpu_ns); }

int main(int count, char** words) {
  const workload::Options options(count, words);
  options.allow("--mode", "--serial", "--ms", "--chain", "--ctx-map");
  brief::Leaf(options).run(brief::kDecoy, decoy_work);
  return 0;
}
