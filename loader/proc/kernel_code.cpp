// SPDX-License-Identifier: Apache-2.0
#include "proc/kernel_code.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/file.h"

namespace spanfold::proc {
namespace {

constexpr std::size_t kMaxListBytes = 1UL << 20;
constexpr std::size_t kMaxPrograms = 100'000;

// What bpf(2) takes and gives for BPF_PROG_GET_NEXT_ID: the one question that this room has for it.
constexpr int kGetNextProgram = 11;
struct NextId {
  std::uint32_t start_id = 0;
  std::uint32_t next_id = 0;
  std::uint32_t open_flags = 0;
};

// Half a microsecond each.
bool list_programs(std::vector<std::uint32_t>& ids) {
  NextId next;
  while (ids.size() < kMaxPrograms && ::syscall(SYS_bpf, kGetNextProgram, &next, sizeof next) == 0) {
    ids.push_back(next.next_id);
    next.start_id = next.next_id;
  }
  return ids.size() == kMaxPrograms || errno == ENOENT;
}

}  // namespace

std::string modules_in(std::string_view proc_modules) {
  // name size users used-by state address taints
  constexpr std::array<bool, 6> kCounts = {true, true, false, false, true, true};
  std::string modules;
  while (!proc_modules.empty()) {
    const std::size_t newline = proc_modules.find('\n');
    std::string_view line = proc_modules.substr(0, newline);
    proc_modules.remove_prefix(newline == std::string_view::npos ? proc_modules.size() : newline + 1);
    for (const bool counts : kCounts) {
      const std::size_t space = std::min(line.find(' '), line.size());
      if (counts) modules.append(line.substr(0, space)).push_back(' ');
      line.remove_prefix(std::min(space + 1, line.size()));
    }
    modules += '\n';
  }
  return modules;
}

KernelCode KernelCode::now() {
  KernelCode code;
  const auto list = read_file("/proc/modules", kMaxListBytes);
  if (list) code.modules = modules_in(*list);  // a kernel without modules has no such file
  code.knows_programs = list_programs(code.programs);
  return code;
}

bool KernelCode::lost_program_of(const KernelCode& before) const {
  return !std::includes(programs.begin(), programs.end(), before.programs.begin(), before.programs.end());
}

}  // namespace spanfold::proc
