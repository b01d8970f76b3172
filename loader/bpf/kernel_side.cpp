// SPDX-License-Identifier: Apache-2.0
#include "bpf/kernel_side.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/membarrier.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "bpf/abi.h"
// The skeleton needs abi.h before it.
#include "bpf/left_behind.h"
#include "bpf/messages.h"
#include "spanfold.skel.h"

namespace spanfold::bpf {
namespace {

// A sweep leaves records that are in use for an instant, or that a full ring refused. Each try finds some room in the
// ring, so many tries in a row mean that something is wrong, not slow.
constexpr int kSweepTries = 1000;
constexpr int kSweepTriesAtOnce = 20;
constexpr useconds_t kSweepPauseUs = 1000;

// What ends a drain: no error number that libbpf itself gives.
constexpr int kEnough = -ECANCELED;

}  // namespace

void KernelSide::RingDeleter::operator()(ring_buffer* ring) const { ring_buffer__free(ring); }

KernelSide::~KernelSide() = default;

int KernelSide::on_message(void* self, void* data, std::size_t bytes) {
  auto& side = *static_cast<KernelSide*>(self);
  if (!dispatch_message(data, bytes, *side.sink_)) ++side.malformed_;
  side.consumed_bytes_ += BPF_RINGBUF_HDR_SZ + bytes;
  const bool enough =
      side.consumed_bytes_ >= side.most_bytes_ || (side.flow_ == Flow::kUntilFull && side.sink_->full());
  return enough ? kEnough : 0;
}

Status KernelSide::open_ring() {
  ring_.reset(ring_buffer__new(bpf_map__fd(skeleton_->maps.ring), on_message, this, nullptr));
  if (!ring_) return errno_error("map the ring buffer");
  if (!wakeup_) wakeup_.reset(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{.events = EPOLLIN, .data = {}};
  if (!wakeup_ || epoll_ctl(wakeup_.get(), EPOLL_CTL_ADD, ring_buffer__epoll_fd(ring_.get()), &event) != 0) {
    return errno_error("watch the ring buffer");
  }
  return ok();
}

Status KernelSide::open_maps() {
  if (Status opened = open_ring(); !opened) return opened;
  const auto& maps = skeleton_->maps;
  if (!banks_) banks_ = std::make_unique<Banks>(bpf_map__fd(maps.counters), bpf_map__fd(maps.processes));
  // Programs that take over take these maps over, too.
  if (!unwind_store_) {
    if (Status opened = open_unwind_store(); !opened) return opened;
  }
  unwind_store_->use_version(&skeleton_->bss->spaces_version);
  banks_->use(bpf_map__fd(maps.counters), bpf_map__fd(maps.processes));
  return view_.open(bpf_map__fd(maps.owners), bpf_map__fd(maps.records), bpf_map__max_entries(maps.owners));
}

Status KernelSide::open_unwind_store() {
  const auto& maps = skeleton_->maps;
  auto store = UnwindStore::open({.spaces = bpf_map__fd(maps.spaces),
                                  .ranges = bpf_map__fd(maps.ranges),
                                  .sections = bpf_map__fd(maps.sections),
                                  .chunks = bpf_map__fd(maps.chunks),
                                  .rules = bpf_map__fd(maps.rules),
                                  .range_count = bpf_map__max_entries(maps.ranges),
                                  .chunk_count = bpf_map__max_entries(maps.chunks)});
  if (!store) return store.error();
  unwind_store_.emplace(*std::move(store));
  return ok();
}

Status KernelSide::load(ProgramOptions options, std::uint32_t frequency_hz, const std::vector<int>& cpus) {
  options.successor_of = skeleton_.get();
  Result<Programs> loaded = load_programs(options);
  if (!loaded) return loaded.error();
  // The old programs go when this returns: their clocks have stopped by then.
  const Skeleton old = std::exchange(skeleton_, std::move(loaded->skeleton));
  hooked_ = loaded->hooked;
  context_fd_ = options.context_fd;
  if (old) hook_watch_.replace(*old);
  if (Status opened = open_maps(); !opened) return opened;
  if (clocks_) {
    clocks_->disable();
    owed_before_ += clocks_->owed();
  }
  Result<ClockEvents> clocks = ClockEvents::open(frequency_hz, cpus, bpf_program__fd(skeleton_->progs.on_tick));
  if (!clocks) return clocks.error();
  clocks_ = std::make_unique<ClockEvents>(std::move(*clocks));
  return started_ ? clocks_->enable() : ok();
}

Status KernelSide::start() {
  started_ = true;
  return clocks_->enable();
}

Targets KernelSide::targets() const {
  return {bpf_map__fd(skeleton_->maps.targets), bpf_map__fd(skeleton_->maps.cgroups)};
}

std::size_t KernelSide::ring_bytes() const { return bpf_map__max_entries(skeleton_->maps.ring); }

Status KernelSide::consume(Sink& sink, std::size_t most_bytes, Flow flow) {
  sink_ = &sink;
  most_bytes_ = most_bytes;
  flow_ = flow;
  consumed_bytes_ = 0;
  const int consumed = ring_buffer__consume(ring_.get());
  sink_ = nullptr;
  if (consumed < 0 && consumed != kEnough) return Error{.what = "read the ring buffer", .code = -consumed};
  if (malformed_ != 0)
    return Error{.what = fmt::format("{} messages in the ring buffer make no sense", std::exchange(malformed_, 0))};
  return ok();
}

// Every program that read the old epoch has ended when this returns: BPF programs run inside RCU read sections.
Status KernelSide::wait_for_programs() {
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0) return ok();
  // Refused where CPUs run tick-less (nohz_full). Updating a map of maps waits for the same grace period.
  const std::uint32_t slot = 0;
  const int context = bpf_map__fd(skeleton_->maps.context);
  if (context_fd_ >= 0 && bpf_map_update_elem(context, &slot, &context_fd_, BPF_ANY) == 0) return ok();
  return errno_error("wait for a grace period");
}

Result<std::uint32_t> KernelSide::step_epoch(bool forget) {
  std::atomic_ref<__u32> epoch(skeleton_->bss->epoch);
  const std::uint32_t old = epoch.load();
  if (forget) {
    // Before the step, and seen everywhere before it: a program that reads the new epoch also sends its stacks anew.
    std::atomic_ref<__u32>(skeleton_->bss->sent_since).store(old + 1);
    if (Status waited = wait_for_programs(); !waited) return waited.error();
  }
  epoch.store(old + 1);
  unwind_store_->before_grace();
  if (Status waited = wait_for_programs(); !waited) return waited.error();
  unwind_store_->after_grace();
  return old;
}

Status KernelSide::sweep_from(std::size_t bucket) {
  std::array<std::uint64_t, 1> args = {bucket};
  LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = args.data(), .ctx_size_in = sizeof(args));
  const int code = bpf_prog_test_run_opts(bpf_program__fd(skeleton_->progs.on_sweep), &opts);
  if (code != 0) return Error{.what = "sweep", .code = -code};
  return ok();
}

// Only where there is something: most of the time few threads are in spans.
Status KernelSide::sweep() {
  for (std::size_t first = 0; first < view_.buckets(); first += SF_SWEEP_BUCKETS) {
    if (!view_.any(first, SF_SWEEP_BUCKETS)) continue;
    if (Status swept = sweep_from(first); !swept) return swept;
  }
  return ok();
}

Status KernelSide::sweep_out(Sink& sink) {
  for (int attempt = 0; attempt < kSweepTries; ++attempt) {
    std::atomic_ref<__u64>(skeleton_->bss->sweep_left).store(0);
    if (Status swept = sweep(); !swept) return swept;
    if (std::atomic_ref<__u64>(skeleton_->bss->sweep_left).load() == 0) {
      return consume(sink, ring_bytes(), Flow::kAll);
    }
    // Room for what was refused, and little of what others write meanwhile: that is of the next window.
    if (Status drained = consume(sink, ring_bytes() / 4, Flow::kAll); !drained) return drained;
    // Whoever is at a record may have been preempted there.
    if (attempt >= kSweepTriesAtOnce) usleep(kSweepPauseUs);
  }
  return Error{.what = "records stay in use: the sweep gave up",
               .hint = "the samples in them come with the next flush"};
}

Result<std::uint64_t> KernelSide::read_clock_ns() {
  if (Status swept = sweep_from(0); !swept) return swept.error();
  return std::uint64_t{std::atomic_ref<__u64>(skeleton_->bss->sweep_ns).load()};
}

bool KernelSide::bind_context(int fd, std::uint32_t id) {
  const std::uint32_t slot = 0;
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.context), &slot, &fd, BPF_ANY) != 0) return false;
  context_fd_ = fd;
  std::atomic_ref<__u32>(skeleton_->bss->context_id).store(id);
  return true;
}

std::size_t KernelSide::mark_left_behind(int context_fd) {
  const std::size_t left = bpf::mark_left_behind(context_fd, bpf_map__fd(skeleton_->maps.left_behind));
  if (left > 0) std::atomic_ref<__u32>(skeleton_->bss->left_entries).store(1);
  return left;
}

void KernelSide::unhook() {
  bpf::unhook(*skeleton_);
  hooked_ = false;
}

}  // namespace spanfold::bpf
