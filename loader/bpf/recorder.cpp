// SPDX-License-Identifier: Apache-2.0
#include "bpf/recorder.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/membarrier.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "bpf/abi.h"
// The skeleton needs abi.h before it.
#include "base/fd.h"
#include "base/log.h"
#include "bpf/banks.h"
#include "bpf/clock_events.h"
#include "bpf/context_map.h"
#include "bpf/messages.h"
#include "spanfold.skel.h"

namespace spanfold::bpf {
namespace {

struct RingDeleter {
  void operator()(ring_buffer* ring) const { ring_buffer__free(ring); }
};

// A sweep leaves records that are in use for an instant, or that a full ring refused. Each try drains the ring first,
// so many tries in a row mean that something is wrong, not slow.
constexpr int kSweepTries = 1000;

}  // namespace

class Recorder::Impl {
 public:
  Status open(const RecorderOptions& options);
  Status add_target(std::uint32_t id, bool is_thread);
  Status start() { return clocks_->enable(); }
  void stop() { clocks_->disable(); }
  [[nodiscard]] int wakeup_fd() const { return ring_buffer__epoll_fd(ring_.get()); }
  Status drain(Sink& sink);
  Result<Bank> flush(Sink& sink, bool forget);
  Status set_frequency(std::uint32_t frequency_hz);
  Status sweep(Sink& sink);
  [[nodiscard]] ContextState context_state() const;
  [[nodiscard]] bool context_created() const { return context_.created; }

 private:
  static int on_message(void* self, void* data, std::size_t bytes);
  Status open_ring();
  Status wait_for_programs();
  Status sweep_once();
  Status sweep_all(Sink& sink);
  std::uint64_t take_missed(std::uint64_t owed, std::uint64_t ticks);

  ContextMap context_;
  Skeleton skeleton_;
  std::unique_ptr<ring_buffer, RingDeleter> ring_;
  std::unique_ptr<ClockEvents> clocks_;
  std::unique_ptr<Banks> banks_;
  Sink* sink_ = nullptr;  // of the drain at hand
  std::uint64_t malformed_ = 0;
  std::uint64_t ticks_ = 0;   // of all flushes
  std::uint64_t missed_ = 0;  // already published
};

int Recorder::Impl::on_message(void* self, void* data, std::size_t bytes) {
  auto& recorder = *static_cast<Impl*>(self);
  if (!dispatch_message(data, bytes, *recorder.sink_)) ++recorder.malformed_;
  return 0;
}

Status Recorder::Impl::open_ring() {
  ring_.reset(ring_buffer__new(bpf_map__fd(skeleton_->maps.ring), on_message, this, nullptr));
  if (!ring_) return errno_error("map the ring buffer");
  return ok();
}

Status Recorder::Impl::open(const RecorderOptions& options) {
  Result<ContextMap> context = open_context_map(options.context_path);
  if (!context) return context.error();
  context_ = std::move(*context);
  if (!context_.problem.empty()) log::warning("{}; recording goes on without spans", context_.problem);

  ProgramOptions programs;
  programs.sizes = options.sizes;
  programs.filter = options.follow_forks || !options.pids.empty() || !options.tids.empty();
  programs.follow_forks = options.follow_forks;
  programs.background_stacks = options.background_stacks;
  programs.context_fd = context_.fd.get();
  if (getrandom(&programs.seed, sizeof(programs.seed), 0) != sizeof(programs.seed))
    return errno_error("get a random seed");
  Result<Skeleton> loaded = load_programs(programs);
  if (!loaded) return loaded.error();
  skeleton_ = std::move(*loaded);

  if (Status opened = open_ring(); !opened) return opened;
  banks_ = std::make_unique<Banks>(bpf_map__fd(skeleton_->maps.counters), bpf_map__fd(skeleton_->maps.processes));
  for (const std::uint32_t pid : options.pids) {
    if (Status added = add_target(pid, false); !added) return added;
  }
  for (const std::uint32_t tid : options.tids) {
    if (Status added = add_target(tid, true); !added) return added;
  }
  Result<ClockEvents> clocks =
      ClockEvents::open(options.frequency_hz, options.cpus, bpf_program__fd(skeleton_->progs.on_tick));
  if (!clocks) return clocks.error();
  clocks_ = std::make_unique<ClockEvents>(std::move(*clocks));
  return ok();
}

Status Recorder::Impl::add_target(std::uint32_t id, bool is_thread) {
  const sf_target target{.id = id, .is_thread = is_thread ? 1U : 0U};
  const std::uint8_t one = 1;
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.targets), &target, &one, BPF_ANY) != 0) {
    return errno_error(fmt::format("add {} to the targets", id), "too many processes or threads are named");
  }
  return ok();
}

Status Recorder::Impl::drain(Sink& sink) {
  sink_ = &sink;
  const int consumed = ring_buffer__consume(ring_.get());
  sink_ = nullptr;
  if (consumed < 0) return Error{.what = "read the ring buffer", .code = -consumed};
  if (malformed_ != 0)
    return Error{.what = fmt::format("{} messages in the ring buffer make no sense", std::exchange(malformed_, 0))};
  return ok();
}

// Every program that read the old epoch has ended when this returns: BPF programs run inside RCU read sections.
Status Recorder::Impl::wait_for_programs() {
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0) return ok();
  // Refused where CPUs run tick-less (nohz_full). Updating a map of maps waits for the same grace period.
  const std::uint32_t slot = 0;
  const int inner = context_.fd.get();
  if (inner >= 0 && bpf_map_update_elem(bpf_map__fd(skeleton_->maps.context), &slot, &inner, BPF_ANY) == 0) return ok();
  return errno_error("wait for a grace period");
}

Status Recorder::Impl::sweep_once() {
  const Fd iterator(bpf_iter_create(bpf_link__fd(skeleton_->links.on_sweep)));
  if (!iterator) return errno_error("start a sweep");
  std::array<char, 64> nothing{};
  ssize_t got = 0;
  do {
    got = read(iterator.get(), nothing.data(), nothing.size());
  } while (got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN)));
  if (got < 0) return errno_error("sweep");
  return ok();
}

Status Recorder::Impl::sweep_all(Sink& sink) {
  for (int attempt = 0; attempt < kSweepTries; ++attempt) {
    if (Status drained = drain(sink); !drained) return drained;
    std::atomic_ref<__u64>(skeleton_->bss->sweep_left).store(0);
    if (Status swept = sweep_once(); !swept) return swept;
    if (std::atomic_ref<__u64>(skeleton_->bss->sweep_left).load() == 0) return drain(sink);
  }
  return Error{.what = "records stay in use: the sweep gave up",
               .hint = "the samples in them come with the next flush"};
}

// The clocks were read before the epoch was stepped, so at first they may owe less than was run; never the reverse.
std::uint64_t Recorder::Impl::take_missed(std::uint64_t owed, std::uint64_t ticks) {
  ticks_ += ticks;
  const std::uint64_t total = owed > ticks_ ? owed - ticks_ : 0;
  if (total <= missed_) return 0;
  return total - std::exchange(missed_, total);
}

Result<Bank> Recorder::Impl::flush(Sink& sink, bool forget) {
  const std::uint64_t owed = clocks_->owed();
  std::atomic_ref<__u32> epoch(skeleton_->bss->epoch);
  const std::uint32_t old = epoch.load();
  if (forget) {
    // Before the step, and seen everywhere before it: a program that reads the new epoch also sends its stacks anew.
    std::atomic_ref<__u32>(skeleton_->bss->sent_since).store(old + 1);
    if (Status waited = wait_for_programs(); !waited) return waited.error();
  }
  epoch.store(old + 1);
  if (Status waited = wait_for_programs(); !waited) return waited.error();
  if (Status swept = sweep_all(sink); !swept) log::warning("{}", swept.error().message());
  Result<Bank> bank = banks_->read(old);
  if (bank) bank->missed = take_missed(owed, bank->ticks);
  return bank;
}

Status Recorder::Impl::set_frequency(std::uint32_t /*frequency_hz*/) { return ok(); }
Status Recorder::Impl::sweep(Sink& /*sink*/) { return ok(); }

ContextState Recorder::Impl::context_state() const {
  if (!context_.fd) return ContextState::kUnusable;
  return context_map_empty(context_.fd.get()) ? ContextState::kEmpty : ContextState::kFilled;
}

Recorder::Recorder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Recorder::~Recorder() = default;

Result<std::unique_ptr<Recorder>> Recorder::open(const RecorderOptions& options) {
  auto impl = std::make_unique<Impl>();
  if (Status opened = impl->open(options); !opened) return opened.error();
  return std::unique_ptr<Recorder>(new Recorder(std::move(impl)));
}

Status Recorder::add_target(std::uint32_t pid) { return impl_->add_target(pid, false); }
Status Recorder::start() { return impl_->start(); }
void Recorder::stop() { impl_->stop(); }
int Recorder::wakeup_fd() const { return impl_->wakeup_fd(); }
Status Recorder::drain(Sink& sink) { return impl_->drain(sink); }
Result<Bank> Recorder::flush(Sink& sink, bool forget) { return impl_->flush(sink, forget); }
Status Recorder::set_frequency(std::uint32_t frequency_hz) { return impl_->set_frequency(frequency_hz); }
Status Recorder::sweep(Sink& sink) { return impl_->sweep(sink); }
std::uint64_t Recorder::sweep_period_ns() const { return 100'000'000; }
Lifecycle Recorder::lifecycle() const { return Lifecycle::kSweep; }
std::int64_t Recorder::clock_shift_ns() const { return 0; }
ContextState Recorder::context_state() const { return impl_->context_state(); }
bool Recorder::context_created() const { return impl_->context_created(); }

}  // namespace spanfold::bpf
