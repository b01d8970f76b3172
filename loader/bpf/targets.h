// SPDX-License-Identifier: Apache-2.0
// What the programs hold a filter against, as it can be changed while they run.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace spanfold::bpf {

// Of cgroup v2, that a filter may name.
inline constexpr std::uint32_t kMostGroups = 64;

enum class TargetKind : std::uint8_t {
  kProcess,
  kThread,
  kMember,  // a process in a group of cgroup v1
};

class Targets {
 public:
  // Descriptors of the maps `targets` and `cgroups`, owned by the programs.
  Targets(int targets, int cgroups) : targets_(targets), cgroups_(cgroups) {}

  // From now on until it ends. Error: ENOSPC or E2BIG where there are too many.
  Status add(std::uint32_t id, TargetKind kind) const;
  void remove(std::uint32_t id, TargetKind kind) const;
  // All of that kind, sorted.
  [[nodiscard]] std::vector<std::uint32_t> all(TargetKind kind) const;
  // Threads in this group of cgroup v2, or below it, pass from now on; what was in the slot before does not.
  Status set_group(std::uint32_t slot, int folder) const;

 private:
  int targets_;
  int cgroups_;
};

}  // namespace spanfold::bpf
