// SPDX-License-Identifier: Apache-2.0
#include "bpf/programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "bpf/abi.h"
// The skeleton needs abi.h before it.
#include "base/file.h"
#include "base/log.h"
#include "bpf/features.h"
#include "spanfold.skel.h"
#include "spanfold_no_fetch.skel.h"

namespace spanfold::bpf {
namespace {

// libbpf speaks through our log, one level lower: what it calls a warning is detail beside the error that we give.
int log_libbpf(libbpf_print_level level, const char* format, va_list args) {
  if (level == LIBBPF_DEBUG || !log::enabled(log::Level::kDebug)) return 0;
  char* text = nullptr;
  if (vasprintf(&text, format, args) < 0) return 0;
  const std::unique_ptr<char, decltype(&free)> owned(text, &free);
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    if (end > 0) log::debug("{}", rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return 0;
}

Error host_error(std::string what, int code, std::string hint) {
  return Error{.what = std::move(what), .code = code, .hint = std::move(hint), .failure = Failure::kHost};
}

std::string load_hint(int code) {
  if (code == EPERM) {
    auto unprivileged = read_file("/proc/sys/kernel/unprivileged_bpf_disabled", 64);
    return fmt::format(
        "needs root or CAP_BPF and CAP_PERFMON; kernel.unprivileged_bpf_disabled is {}; -v shows the kernel's words",
        unprivileged ? unprivileged->substr(0, unprivileged->find('\n')) : "?");
  }
  if (code == EACCES || code == EINVAL || code == E2BIG)
    return "this kernel's verifier refused a program, which is a fault of spanfold: -v shows its words";
  return "-v shows what the kernel said";
}

// Before 5.11 maps and programs count as locked memory. libbpf sees to that as well, but we ask the kernel before it
// does.
void raise_memlock() {
  const rlimit unlimited{.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  (void)setrlimit(RLIMIT_MEMLOCK, &unlimited);
}

// A ring that a full table's message does not fit into would keep that table for ever.
constexpr std::uint32_t kLeastRingBytes = std::bit_ceil(std::uint32_t{sizeof(sf_fold_msg)} + BPF_RINGBUF_HDR_SZ);
static_assert(sizeof(sf_stack_msg) < sizeof(sf_fold_msg), "a table's message is the longest");

// In powers of two, and at least a page: what the kernel wants of a ring.
std::uint32_t ring_bytes_of(const Sizes& sizes) {
  const auto page = static_cast<std::uint32_t>(sysconf(_SC_PAGESIZE));
  return std::bit_ceil(std::max({sizes.ring_bytes, page, kLeastRingBytes}));
}

bool filters_by_number(const ProgramOptions& options) { return options.filter_targets || options.filter_members; }

std::uint32_t filter_of(const ProgramOptions& options) {
  std::uint32_t filter = 0;
  if (options.filter_targets) filter |= SF_FILTER_TARGETS;
  if (options.filter_members) filter |= SF_FILTER_MEMBERS;
  if (options.cgroups > 0) filter |= SF_FILTER_CGROUPS;
  return filter;
}

void size_maps(spanfold_bpf& skeleton, const ProgramOptions& options, bool fetch_atomics) {
  constexpr std::uint32_t kMostTaken = 4096;
  const Sizes& sizes = options.sizes;
  const std::uint32_t buckets = std::bit_ceil(std::max(sizes.buckets, 1U));
  const std::uint32_t sets = std::bit_ceil(std::max(sizes.sent_sets, 1U));
  bpf_map__set_max_entries(skeleton.maps.ring, ring_bytes_of(sizes));
  bpf_map__set_max_entries(skeleton.maps.owners, buckets);
  bpf_map__set_max_entries(skeleton.maps.records, buckets * SF_BUCKET_WAYS);
  bpf_map__set_max_entries(skeleton.maps.tables, std::max(sizes.tables, 1U));
  bpf_map__set_max_entries(skeleton.maps.sent, sets);
  bpf_map__set_max_entries(skeleton.maps.processes, std::max(sizes.processes, 1U));
  bpf_map__set_max_entries(skeleton.maps.targets, filters_by_number(options) ? std::max(sizes.targets, 1U) : 1U);
  // Not every kernel has groups.
  bpf_map__set_autocreate(skeleton.maps.cgroups, options.cgroups > 0);
  bpf_map__set_max_entries(skeleton.maps.cgroups, std::max(options.cgroups, 1U));
  bpf_map__set_max_entries(skeleton.maps.chunks, std::max(sizes.unwind_chunks, 1U));
  bpf_map__set_max_entries(skeleton.maps.ranges, std::max(sizes.unwind_ranges, 1U));
  bpf_map__set_max_entries(skeleton.maps.spaces, std::max(sizes.unwind_spaces, 1U));
  // Every table may be taken, and on each CPU a few records, some of them by hooks that were preempted.
  if (!fetch_atomics) bpf_map__set_max_entries(skeleton.maps.locks, std::max(sizes.tables, 1U) + kMostTaken);
}

void set_knobs(sf_config& knobs, const ProgramOptions& options) {
  knobs.seed = options.seed;
  knobs.bucket_mask = std::bit_ceil(std::max(options.sizes.buckets, 1U)) - 1;
  knobs.sent_mask = std::bit_ceil(std::max(options.sizes.sent_sets, 1U)) - 1;
  knobs.table_count = options.sizes.tables;
  knobs.wakeup_bytes = ring_bytes_of(options.sizes) / 4;
  knobs.filter = filter_of(options);
  knobs.cgroup_count = options.cgroups;
  knobs.background_stacks = options.background_stacks ? 1 : 0;
  knobs.follow_forks = options.follow_forks ? 1 : 0;
  knobs.span_times = options.span_times ? 1 : 0;
  knobs.max_age_ns = options.max_age_ns;
  knobs.max_frames = std::clamp(options.max_frames, 1U, std::uint32_t{SF_USER_FRAMES});
}

// The outer map takes its template from the pin itself, so that a value with fields appended or another number of
// entries is adopted as it is.
Status use_context(spanfold_bpf& skeleton, int context_fd) {
  if (context_fd < 0) return ok();
  const int code = bpf_map__set_inner_map_fd(skeleton.maps.context, context_fd);
  if (code != 0) return host_error("take the context map as template", -code, "");
  return ok();
}

Status bind_context(spanfold_bpf& skeleton, int context_fd) {
  if (context_fd < 0) return ok();
  const std::uint32_t slot = 0;
  if (bpf_map_update_elem(bpf_map__fd(skeleton.maps.context), &slot, &context_fd, BPF_ANY) != 0) {
    return host_error("bind the context map", errno, "");
  }
  return ok();
}

// The tick program goes onto its events one CPU at a time, and the sweep runs when the recorder says so.
Status attach(spanfold_bpf& skeleton) {
  skeleton.links.on_fork = bpf_program__attach(skeleton.progs.on_fork);
  if (skeleton.links.on_fork == nullptr) return host_error("attach to sched_process_fork", errno, "");
  skeleton.links.on_exit = bpf_program__attach(skeleton.progs.on_exit);
  if (skeleton.links.on_exit == nullptr) return host_error("attach to sched_process_exit", errno, "");
  return ok();
}

// Both sets of programs come from the same sources, so one skeleton serves the two of them.
static_assert(sizeof(*spanfold_bpf::bss) == sizeof(*spanfold_no_fetch_bpf::bss));
static_assert(sizeof(*spanfold_bpf::rodata) == sizeof(*spanfold_no_fetch_bpf::rodata));

Skeleton open_skeleton(bool fetch_atomics) {
  if (fetch_atomics) return Skeleton(spanfold_bpf::open());
  // What skeletons are made of: their own code frees it.
  Skeleton skeleton(
      static_cast<spanfold_bpf*>(calloc(1, sizeof(spanfold_bpf))));  // NOLINT(cppcoreguidelines-no-malloc)
  if (!skeleton || spanfold_bpf__create_skeleton(skeleton.get()) != 0) return nullptr;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): libbpf only reads it
  skeleton->skeleton->data = const_cast<void*>(spanfold_no_fetch_bpf::elf_bytes(&skeleton->skeleton->data_sz));
  return bpf_object__open_skeleton(skeleton->skeleton, nullptr) == 0 ? std::move(skeleton) : nullptr;
}

// The maps that hold what was gathered. The context map's template and the globals are each set's own.
Status take_over_maps(spanfold_bpf& skeleton, const spanfold_bpf& old) {
  for (int i = 0; i < skeleton.skeleton->map_cnt; ++i) {
    bpf_map* map = *skeleton.skeleton->maps[i].map;
    if (map == skeleton.maps.context || bpf_map__is_internal(map) || !bpf_map__autocreate(map)) continue;
    const int code = bpf_map__reuse_fd(map, bpf_map__fd(*old.skeleton->maps[i].map));
    if (code != 0) return host_error(fmt::format("take over the map {}", bpf_map__name(map)), -code, "");
  }
  return ok();
}

Result<Skeleton> load_once(const ProgramOptions& options, bool fetch_atomics, bool hooked) {
  Skeleton skeleton = open_skeleton(fetch_atomics);
  if (!skeleton) return host_error("open the BPF programs", errno, "");
  size_maps(*skeleton, options, fetch_atomics);
  set_knobs(skeleton->rodata->knobs, options);
  for (bpf_program* hook : {skeleton->progs.on_set, skeleton->progs.on_delete, skeleton->progs.on_evict}) {
    bpf_program__set_autoload(hook, hooked);
  }
  if (Status taken = use_context(*skeleton, options.context_fd); !taken) return taken.error();
  if (options.successor_of != nullptr) {
    if (Status taken = take_over_maps(*skeleton, *options.successor_of); !taken) return taken.error();
    *skeleton->bss = *options.successor_of->bss;
  }
  skeleton->bss->context_id = options.context_id;
  if (const int code = spanfold_bpf::load(skeleton.get()); code != 0) {
    return host_error("load the BPF programs", -code, load_hint(-code));
  }
  return skeleton;
}

// An eviction that is not seen as it happens is seen by the sweep: old kernels may lack that one place to hook.
Status attach_hooks(spanfold_bpf& skeleton) {
  skeleton.links.on_set = bpf_program__attach(skeleton.progs.on_set);
  if (skeleton.links.on_set == nullptr) return host_error("hook htab_lru_map_update_elem", errno, "");
  skeleton.links.on_delete = bpf_program__attach(skeleton.progs.on_delete);
  if (skeleton.links.on_delete == nullptr) return host_error("hook htab_lru_map_delete_elem", errno, "");
  skeleton.links.on_evict = bpf_program__attach(skeleton.progs.on_evict);
  if (skeleton.links.on_evict == nullptr) log::debug("no hook on htab_lru_map_delete_node: errno {}", errno);
  return ok();
}

// Without hooks from here on: an error where they must be, else a word on it.
Status do_without(const ProgramOptions& options, const Error& why) {
  if (options.hooks == Hooks::kMust) {
    Error error = why;
    error.hint = "choose --lifecycle sweep or auto";
    return error;
  }
  log::info("ends of spans are seen by samples and a sweep, not by hooks: {}", why.message());
  return ok();
}

// Loads with hooks where they are wanted and the kernel takes them, or else without.
Result<Programs> load_hooked_or_not(const ProgramOptions& options) {
  const bool fetch_atomics = has_fetch_atomics();
  if (options.hooks != Hooks::kNone) {
    Error why = host_error("load fentry programs", fentry_refusal(), "");
    if (why.code == 0) {
      Result<Skeleton> skeleton = load_once(options, fetch_atomics, true);
      if (skeleton) return Programs{.skeleton = std::move(*skeleton), .hooked = true};
      why = skeleton.error();
    }
    if (Status going_on = do_without(options, why); !going_on) return going_on.error();
  }
  Result<Skeleton> skeleton = load_once(options, fetch_atomics, false);
  if (!skeleton) return skeleton.error();
  return Programs{.skeleton = std::move(*skeleton)};
}

}  // namespace

void SkeletonDeleter::operator()(spanfold_bpf* skeleton) const { spanfold_bpf::destroy(skeleton); }

void unhook(spanfold_bpf& skeleton) {
  for (bpf_link** link : {&skeleton.links.on_set, &skeleton.links.on_delete, &skeleton.links.on_evict}) {
    bpf_link__destroy(std::exchange(*link, nullptr));
  }
}

Result<Programs> load_programs(const ProgramOptions& options) {
  libbpf_set_print(log_libbpf);
  raise_memlock();
  if (access("/sys/kernel/btf/vmlinux", R_OK) != 0) {
    return host_error("read the kernel's types in /sys/kernel/btf/vmlinux", errno,
                      "the kernel needs CONFIG_DEBUG_INFO_BTF");
  }
  Result<Programs> programs = load_hooked_or_not(options);
  if (!programs) return programs;
  spanfold_bpf& skeleton = *programs->skeleton;
  if (Status bound = bind_context(skeleton, options.context_fd); !bound) return bound.error();
  if (Status attached = attach(skeleton); !attached) return attached.error();
  if (!programs->hooked) return programs;
  if (Status hooked = attach_hooks(skeleton); !hooked) {
    unhook(skeleton);
    programs->hooked = false;
    if (Status going_on = do_without(options, hooked.error()); !going_on) return going_on.error();
  }
  return programs;
}

}  // namespace spanfold::bpf
