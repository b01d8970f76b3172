// SPDX-License-Identifier: Apache-2.0
#include "bpf/left_behind.h"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "bpf/abi.h"
#include "bpf/host.h"

namespace spanfold::bpf {
namespace {

bool runs(std::uint64_t pid_tgid) {
  return access(fmt::format("/proc/{}/task/{}", pid_tgid >> 32, pid_tgid & 0xffffffff).c_str(), F_OK) == 0;
}

}  // namespace

std::size_t mark_left_behind(int context_fd, int left_behind_fd) {
  bpf_map_info info{};
  std::uint32_t length = sizeof(info);
  if (!in_host_pid_namespace() || bpf_obj_get_info_by_fd(context_fd, &info, &length) != 0) return 0;
  // Fields may have been appended to the span.
  std::vector<std::uint64_t> value((info.value_size + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
  std::size_t left = 0;
  std::uint64_t key = 0;
  std::uint64_t next = 0;
  // Writers go on meanwhile, and a walk whose key is taken away starts anew: it is given up at some point.
  std::uint32_t steps = 2 * info.max_entries;
  for (int code = bpf_map_get_next_key(context_fd, nullptr, &next); code == 0 && steps > 0; --steps) {
    key = next;
    code = bpf_map_get_next_key(context_fd, &key, &next);
    if (runs(key) || bpf_map_lookup_elem(context_fd, &key, value.data()) != 0) continue;
    if (bpf_map_update_elem(left_behind_fd, &key, value.data(), BPF_ANY) == 0) ++left;
  }
  return left;
}

}  // namespace spanfold::bpf
