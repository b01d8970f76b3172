// SPDX-License-Identifier: Apache-2.0
#include "bpf/hook_watch.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <utility>
#include <vector>

#include "bpf/abi.h"
// The skeleton needs abi.h before it.
#include "base/clock.h"
#include "spanfold.skel.h"

namespace spanfold::bpf {
namespace {

std::uint64_t misses_of(const bpf_program* program) {
  bpf_prog_info info{};
  std::uint32_t length = sizeof(info);
  return bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &length) == 0 ? info.recursion_misses : 0;
}

std::uint64_t misses_of(const spanfold_bpf& skeleton) {
  const auto& programs = skeleton.progs;
  return misses_of(programs.on_set) + misses_of(programs.on_delete) + misses_of(programs.on_evict);
}

}  // namespace

HookMisses::OfFlush HookMisses::after_step(std::uint64_t count) {
  return {.fresh = count - std::exchange(taken_, count), .any = count > std::exchange(begin_, before_)};
}

void HookWatch::before_step(const spanfold_bpf& skeleton) { misses_.before_step(replaced_ + misses_of(skeleton)); }

HookMisses::OfFlush HookWatch::after_step(const spanfold_bpf& skeleton) {
  return misses_.after_step(replaced_ + misses_of(skeleton));
}

void HookWatch::replace(const spanfold_bpf& old) { replaced_ += misses_of(old); }

std::uint64_t HookWatch::take_foreign_rate(const spanfold_bpf& skeleton) {
  constexpr std::uint64_t kSecondNs = 1'000'000'000;
  std::uint64_t all = 0;
  std::vector<sf_counters> values(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  for (const std::uint32_t bank : {0U, 1U}) {
    if (bpf_map_lookup_elem(bpf_map__fd(skeleton.maps.counters), &bank, values.data()) != 0) return 0;
    for (const sf_counters& value : values) all += value.count[SF_COUNT_FOREIGN];
  }
  const std::uint64_t now_ns = boot_clock_ns();
  const std::uint64_t fresh = all - std::exchange(foreign_, all);
  const std::uint64_t past_ns = now_ns - std::exchange(looked_ns_, now_ns);
  return past_ns == now_ns ? 0 : fresh * kSecondNs / (past_ns + 1);
}

}  // namespace spanfold::bpf
