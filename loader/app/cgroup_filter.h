// SPDX-License-Identifier: Apache-2.0
// The groups of --cgroup: those of v2 are the kernel's to tell, processes of those of v1 are followed by looking again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "bpf/targets.h"
#include "proc/cgroup.h"

namespace spanfold::app {

class CgroupFilter {
 public:
  // Finds the groups; errors name the one that is not there, or is none. Says which folders were found for names, and
  // which of them hold nobody yet.
  Status open(const std::vector<std::string>& names);

  // Groups of v2: as many slots are filled.
  [[nodiscard]] std::uint32_t kernel_groups() const;
  [[nodiscard]] bool follows_members() const { return kernel_groups() < groups_.size(); }

  // Before anything is sampled: who is in the groups now.
  Status begin(const bpf::Targets& targets);
  // How often look() is wanted.
  [[nodiscard]] std::uint64_t period_ns() const;
  // Who came and went, and whether a group was made anew; says which are gone. Holds itself back where looking takes
  // long.
  void look(const bpf::Targets& targets);

 private:
  struct Group {
    proc::Cgroup cgroup;
    std::uint32_t slot = 0;  // among those of v2
    bool told = false;       // the kernel knows of it
    bool gone = false;       // and said
  };

  static void look_at(Group& group);
  static Status tell(Group& group, const bpf::Targets& targets);
  [[nodiscard]] std::vector<std::uint32_t> members() const;
  void follow(const bpf::Targets& targets);
  void add(std::uint32_t pid, const bpf::Targets& targets);

  std::vector<Group> groups_;
  std::uint64_t next_look_ns_ = 0;
  bool crowd_said_ = false;
};

}  // namespace spanfold::app
