// SPDX-License-Identifier: Apache-2.0
#include "bpf/targets.h"

#include <bpf/bpf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "bpf/abi.h"

namespace spanfold::bpf {
namespace {

static_assert(kMostGroups == SF_MAX_CGROUPS);
static_assert(static_cast<int>(TargetKind::kProcess) == SF_TARGET_PROCESS);
static_assert(static_cast<int>(TargetKind::kThread) == SF_TARGET_THREAD);
static_assert(static_cast<int>(TargetKind::kMember) == SF_TARGET_MEMBER);

sf_target key_of(std::uint32_t id, TargetKind kind) { return {.id = id, .kind = static_cast<std::uint32_t>(kind)}; }

}  // namespace

Status Targets::add(std::uint32_t id, TargetKind kind) const {
  const sf_target target = key_of(id, kind);
  const std::uint8_t one = 1;
  if (bpf_map_update_elem(targets_, &target, &one, BPF_ANY) != 0) {
    return errno_error(fmt::format("add {} to the targets", id), "too many processes or threads are named");
  }
  return ok();
}

void Targets::remove(std::uint32_t id, TargetKind kind) const {
  const sf_target target = key_of(id, kind);
  (void)bpf_map_delete_elem(targets_, &target);  // it may have ended
}

// Where a key goes while it is stood on, the kernel starts over: what comes twice is one, and an end is certain.
std::vector<std::uint32_t> Targets::all(TargetKind kind) const {
  constexpr std::size_t kMostSteps = std::size_t{1} << 20;
  std::vector<std::uint32_t> ids;
  sf_target target{};
  const sf_target* before = nullptr;
  for (std::size_t step = 0; step < kMostSteps && bpf_map_get_next_key(targets_, before, &target) == 0; ++step) {
    before = &target;
    if (target.kind == static_cast<std::uint32_t>(kind)) ids.push_back(target.id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

Status Targets::set_group(std::uint32_t slot, int folder) const {
  if (bpf_map_update_elem(cgroups_, &slot, &folder, BPF_ANY) != 0) return errno_error("name a cgroup to the kernel");
  return ok();
}

}  // namespace spanfold::bpf
