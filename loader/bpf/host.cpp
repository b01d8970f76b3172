// SPDX-License-Identifier: Apache-2.0
#include "bpf/host.h"

#include <linux/capability.h>
#include <sys/stat.h>

#include <charconv>
#include <cstdint>
#include <string>

#include "base/file.h"

namespace spanfold::bpf {
namespace {

// The line "CapEff:\t000001ffffffffff" of /proc/self/status; all ones where it cannot be read: then the kernel judges.
std::uint64_t effective_capabilities() {
  constexpr std::string_view kLine = "CapEff:\t";
  auto status = read_file("/proc/self/status", 65536);
  std::uint64_t mask = ~std::uint64_t{0};
  if (!status) return mask;
  const auto at = status->find(kLine);
  if (at == std::string::npos) return mask;
  const char* begin = status->data() + at + kLine.size();
  std::from_chars(begin, status->data() + status->size(), mask, 16);
  return mask;
}

bool has(std::uint64_t mask, int capability) { return (mask >> capability & 1) != 0; }

}  // namespace

Status check_capabilities() {
  const std::uint64_t mask = effective_capabilities();
  if (has(mask, CAP_SYS_ADMIN)) return ok();
  if (has(mask, CAP_BPF) && has(mask, CAP_PERFMON)) return ok();
  return Error{.what = "recording needs CAP_BPF and CAP_PERFMON (or CAP_SYS_ADMIN)",
               .hint = "run as root: sudo spanfold record …",
               .failure = Failure::kHost};
}

bool in_host_pid_namespace() {
  // The inode of the initial pid namespace is a constant of the kernel (PROC_PID_INIT_INO).
  constexpr ino_t kInitialPidNamespace = 0xEFFFFFFC;
  struct stat info {};
  return stat("/proc/self/ns/pid", &info) != 0 || info.st_ino == kInitialPidNamespace;
}

}  // namespace spanfold::bpf
