// SPDX-License-Identifier: Apache-2.0
#include "bpf/programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <string>

#include "bpf/abi.h"
// The skeleton needs abi.h before it.
#include "base/file.h"
#include "base/log.h"
#include "spanfold.skel.h"

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
  if (code == EPERM || code == EACCES) {
    auto unprivileged = read_file("/proc/sys/kernel/unprivileged_bpf_disabled", 64);
    return fmt::format(
        "needs root or CAP_BPF and CAP_PERFMON; kernel.unprivileged_bpf_disabled is {}; -v shows the verifier's words",
        unprivileged ? unprivileged->substr(0, unprivileged->find('\n')) : "?");
  }
  return "-v shows what the kernel said";
}

// A ring that a full table's message does not fit into would keep that table for ever.
constexpr std::uint32_t kLeastRingBytes = std::bit_ceil(std::uint32_t{sizeof(sf_fold_msg)} + BPF_RINGBUF_HDR_SZ);
static_assert(sizeof(sf_stack_msg) < sizeof(sf_fold_msg), "a table's message is the longest");

// In powers of two, and at least a page: what the kernel wants of a ring.
std::uint32_t ring_bytes_of(const Sizes& sizes) {
  const auto page = static_cast<std::uint32_t>(sysconf(_SC_PAGESIZE));
  return std::bit_ceil(std::max({sizes.ring_bytes, page, kLeastRingBytes}));
}

void size_maps(spanfold_bpf& skeleton, const ProgramOptions& options) {
  const Sizes& sizes = options.sizes;
  const std::uint32_t buckets = std::bit_ceil(std::max(sizes.buckets, 1U));
  const std::uint32_t sets = std::bit_ceil(std::max(sizes.sent_sets, 1U));
  bpf_map__set_max_entries(skeleton.maps.ring, ring_bytes_of(sizes));
  bpf_map__set_max_entries(skeleton.maps.owners, buckets);
  bpf_map__set_max_entries(skeleton.maps.records, buckets * SF_BUCKET_WAYS);
  bpf_map__set_max_entries(skeleton.maps.tables, std::max(sizes.tables, 1U));
  bpf_map__set_max_entries(skeleton.maps.sent, sets);
  bpf_map__set_max_entries(skeleton.maps.processes, std::max(sizes.processes, 1U));
  bpf_map__set_max_entries(skeleton.maps.targets, options.filter ? std::max(sizes.targets, 1U) : 1U);
}

void set_knobs(sf_config& knobs, const ProgramOptions& options) {
  knobs.seed = options.seed;
  knobs.bucket_mask = std::bit_ceil(std::max(options.sizes.buckets, 1U)) - 1;
  knobs.sent_mask = std::bit_ceil(std::max(options.sizes.sent_sets, 1U)) - 1;
  knobs.table_count = options.sizes.tables;
  knobs.wakeup_bytes = ring_bytes_of(options.sizes) / 4;
  knobs.filter = options.filter ? SF_FILTER_TARGETS : SF_FILTER_NONE;
  knobs.background_stacks = options.background_stacks ? 1 : 0;
  knobs.follow_forks = options.follow_forks ? 1 : 0;
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

// The tick program goes onto its events one CPU at a time, and the sweep runs when the recorder reads it.
Status attach(spanfold_bpf& skeleton) {
  skeleton.links.on_fork = bpf_program__attach(skeleton.progs.on_fork);
  if (skeleton.links.on_fork == nullptr) return host_error("attach to sched_process_fork", errno, "");
  skeleton.links.on_exit = bpf_program__attach(skeleton.progs.on_exit);
  if (skeleton.links.on_exit == nullptr) return host_error("attach to sched_process_exit", errno, "");
  bpf_iter_link_info info{};
  info.map.map_fd = static_cast<std::uint32_t>(bpf_map__fd(skeleton.maps.records));
  LIBBPF_OPTS(bpf_iter_attach_opts, opts, .link_info = &info, .link_info_len = sizeof(info));
  skeleton.links.on_sweep = bpf_program__attach_iter(skeleton.progs.on_sweep, &opts);
  if (skeleton.links.on_sweep == nullptr) return host_error("attach the sweep over the records", errno, "");
  return ok();
}

}  // namespace

void SkeletonDeleter::operator()(spanfold_bpf* skeleton) const { spanfold_bpf::destroy(skeleton); }

Result<Skeleton> load_programs(const ProgramOptions& options) {
  libbpf_set_print(log_libbpf);
  if (access("/sys/kernel/btf/vmlinux", R_OK) != 0) {
    return host_error("read the kernel's types in /sys/kernel/btf/vmlinux", errno,
                      "the kernel needs CONFIG_DEBUG_INFO_BTF");
  }
  Skeleton skeleton(spanfold_bpf::open());
  if (!skeleton) return host_error("open the BPF programs", errno, "");
  size_maps(*skeleton, options);
  set_knobs(skeleton->rodata->knobs, options);
  if (Status taken = use_context(*skeleton, options.context_fd); !taken) return taken.error();
  if (const int code = spanfold_bpf::load(skeleton.get()); code != 0) {
    return host_error("load the BPF programs", -code, load_hint(-code));
  }
  if (Status bound = bind_context(*skeleton, options.context_fd); !bound) return bound.error();
  if (Status attached = attach(*skeleton); !attached) return attached.error();
  return skeleton;
}

}  // namespace spanfold::bpf
