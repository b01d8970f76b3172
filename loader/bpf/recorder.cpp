// SPDX-License-Identifier: Apache-2.0
#include "bpf/recorder.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/membarrier.h>
#include <sys/epoll.h>
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
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "bpf/banks.h"
#include "bpf/clock_events.h"
#include "bpf/context_map.h"
#include "bpf/hook_watch.h"
#include "bpf/left_behind.h"
#include "bpf/messages.h"
#include "bpf/record_view.h"
#include "spanfold.skel.h"

namespace spanfold::bpf {
namespace {

struct RingDeleter {
  void operator()(ring_buffer* ring) const { ring_buffer__free(ring); }
};

// A sweep leaves records that are in use for an instant, or that a full ring refused. Each try drains the ring first,
// so many tries in a row mean that something is wrong, not slow.
constexpr int kSweepTries = 1000;
constexpr int kSweepTriesAtOnce = 20;
constexpr useconds_t kSweepPauseUs = 1000;

// Where hooks see the ends of spans, the sweep only makes good what they miss.
constexpr std::uint64_t kSweepBesideHooksNs = 1'000'000'000;
constexpr std::uint64_t kSweepAloneNs = 100'000'000;

}  // namespace

class Recorder::Impl {
 public:
  Status open(const RecorderOptions& options);
  Status add_target(std::uint32_t id, bool is_thread);
  Status start();
  void stop() { clocks_->disable(); }
  [[nodiscard]] int wakeup_fd() const { return wakeup_.get(); }
  Status drain(Sink& sink);
  Result<Bank> flush(Sink& sink, bool forget);
  Status set_frequency(std::uint32_t frequency_hz);
  Status sweep(Sink& sink);
  [[nodiscard]] Lifecycle lifecycle() const { return hooked_ ? Lifecycle::kFentry : Lifecycle::kSweep; }
  [[nodiscard]] std::int64_t clock_shift_ns() const { return clock_shift_ns_; }
  [[nodiscard]] ContextState context_state() const;
  [[nodiscard]] bool context_created() const { return context_.created; }

 private:
  static int on_message(void* self, void* data, std::size_t bytes);
  Status load();
  Status open_ring();
  Status open_maps();
  Status open_clocks();
  void measure_clock_shift();
  void mark_left_entries();
  [[nodiscard]] Hooks wanted_hooks() const;
  void look_at_pin();
  Status adopt(ContextMap map);
  Status wait_for_programs();
  Status sweep_from(std::size_t bucket);
  Status sweep_once();
  Status sweep_all(Sink& sink);
  std::uint64_t take_missed(std::uint64_t owed, std::uint64_t ticks);

  RecorderOptions options_;
  std::uint64_t seed_ = 0;
  ContextMap context_;
  std::string pin_problem_;  // said
  Skeleton skeleton_;
  bool hooked_ = false;
  bool gave_up_hooks_ = false;
  bool started_ = false;
  Fd wakeup_;  // an epoll descriptor around the ring's, which a reload replaces
  std::unique_ptr<ring_buffer, RingDeleter> ring_;
  std::unique_ptr<ClockEvents> clocks_;
  std::unique_ptr<Banks> banks_;
  RecordView view_;
  HookWatch hook_watch_;
  std::int64_t clock_shift_ns_ = 0;
  std::uint64_t owed_before_ = 0;  // by clocks of programs that were replaced
  Sink* sink_ = nullptr;           // of the drain at hand
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
  wakeup_.reset(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{.events = EPOLLIN, .data = {}};
  if (!wakeup_ || epoll_ctl(wakeup_.get(), EPOLL_CTL_ADD, ring_buffer__epoll_fd(ring_.get()), &event) != 0) {
    return errno_error("watch the ring buffer");
  }
  return ok();
}

Status Recorder::Impl::open_maps() {
  if (Status opened = open_ring(); !opened) return opened;
  const auto& maps = skeleton_->maps;
  if (!banks_) banks_ = std::make_unique<Banks>(bpf_map__fd(maps.counters), bpf_map__fd(maps.processes));
  banks_->use(bpf_map__fd(maps.counters), bpf_map__fd(maps.processes));
  return view_.open(bpf_map__fd(maps.owners), bpf_map__fd(maps.records), bpf_map__max_entries(maps.owners));
}

Status Recorder::Impl::open_clocks() {
  Result<ClockEvents> clocks =
      ClockEvents::open(options_.frequency_hz, options_.cpus, bpf_program__fd(skeleton_->progs.on_tick));
  if (!clocks) return clocks.error();
  clocks_ = std::make_unique<ClockEvents>(std::move(*clocks));
  return ok();
}

// Hooks are on what changes LRU hashes; whoever pinned another kind gets the sweep.
Hooks Recorder::Impl::wanted_hooks() const {
  if (options_.lifecycle == Lifecycle::kSweep || gave_up_hooks_ || !context_.fd) return Hooks::kNone;
  bpf_map_info info{};
  std::uint32_t length = sizeof(info);
  const bool lru = bpf_obj_get_info_by_fd(context_.fd.get(), &info, &length) == 0 && info.type == BPF_MAP_TYPE_LRU_HASH;
  if (!lru) return Hooks::kNone;
  return options_.lifecycle == Lifecycle::kFentry ? Hooks::kMust : Hooks::kTry;
}

// Loads the programs, or a second set of them that takes over from the first, which goes when its clocks have stopped.
Status Recorder::Impl::load() {
  ProgramOptions programs;
  programs.sizes = options_.sizes;
  programs.seed = seed_;
  programs.filter = options_.follow_forks || !options_.pids.empty() || !options_.tids.empty();
  programs.follow_forks = options_.follow_forks;
  programs.background_stacks = options_.background_stacks;
  programs.span_times = options_.span_times;
  programs.max_age_ns = options_.max_age_ns;
  programs.hooks = wanted_hooks();
  programs.context_fd = context_.fd.get();
  programs.context_id = context_.id;
  programs.successor_of = skeleton_.get();
  Result<Programs> loaded = load_programs(programs);
  if (!loaded) return loaded.error();
  const Skeleton old = std::exchange(skeleton_, std::move(loaded->skeleton));
  hooked_ = loaded->hooked;
  hook_watch_.restart();
  if (Status opened = open_maps(); !opened) return opened;
  if (clocks_) {
    clocks_->disable();
    owed_before_ += clocks_->owed();
  }
  if (Status opened = open_clocks(); !opened) return opened;
  return started_ ? clocks_->enable() : ok();
}

// In a time namespace this process's boot clock is not the one that the programs read.
void Recorder::Impl::measure_clock_shift() {
  constexpr std::int64_t kNoiseNs = 10'000'000;
  const std::uint64_t before_ns = boot_clock_ns();
  if (!sweep_from(0)) return;
  const std::uint64_t swept_ns = std::atomic_ref<__u64>(skeleton_->bss->sweep_ns).load();
  const std::int64_t shift_ns = static_cast<std::int64_t>(swept_ns - (before_ns + boot_clock_ns()) / 2);
  if (shift_ns < -kNoiseNs || shift_ns > kNoiseNs) clock_shift_ns_ = shift_ns;
}

Status Recorder::Impl::open(const RecorderOptions& options) {
  options_ = options;
  Result<ContextMap> context = open_context_map(options_.context_path);
  if (!context) return context.error();
  context_ = std::move(*context);
  if (!context_.problem.empty()) log::warning("{}; recording goes on without spans", context_.problem);
  pin_problem_ = context_.problem;
  if (getrandom(&seed_, sizeof(seed_), 0) != sizeof(seed_)) return errno_error("get a random seed");
  if (Status loaded = load(); !loaded) return loaded;
  for (const std::uint32_t pid : options_.pids) {
    if (Status added = add_target(pid, false); !added) return added;
  }
  for (const std::uint32_t tid : options_.tids) {
    if (Status added = add_target(tid, true); !added) return added;
  }
  measure_clock_shift();
  mark_left_entries();
  return ok();
}

void Recorder::Impl::mark_left_entries() {
  if (!context_.fd) return;
  const std::size_t left = mark_left_behind(context_.fd.get(), bpf_map__fd(skeleton_->maps.left_behind));
  if (left == 0) return;
  std::atomic_ref<__u32>(skeleton_->bss->left_entries).store(1);
  log::info("{} entries of the context map are of threads that are gone: a writer ended without taking them away",
            left);
}

Status Recorder::Impl::start() {
  started_ = true;
  return clocks_->enable();
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

Status Recorder::Impl::sweep_from(std::size_t bucket) {
  std::uint64_t args[] = {bucket};
  LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = args, .ctx_size_in = sizeof(args));
  const int code = bpf_prog_test_run_opts(bpf_program__fd(skeleton_->progs.on_sweep), &opts);
  if (code != 0) return Error{.what = "sweep", .code = -code};
  return ok();
}

// Only where there is something: most of the time few threads are in spans.
Status Recorder::Impl::sweep_once() {
  for (std::size_t first = 0; first < view_.buckets(); first += SF_SWEEP_BUCKETS) {
    if (!view_.any(first, SF_SWEEP_BUCKETS)) continue;
    if (Status swept = sweep_from(first); !swept) return swept;
  }
  return ok();
}

Status Recorder::Impl::sweep_all(Sink& sink) {
  for (int attempt = 0; attempt < kSweepTries; ++attempt) {
    if (Status drained = drain(sink); !drained) return drained;
    std::atomic_ref<__u64>(skeleton_->bss->sweep_left).store(0);
    if (Status swept = sweep_once(); !swept) return swept;
    if (std::atomic_ref<__u64>(skeleton_->bss->sweep_left).load() == 0) return drain(sink);
    // Whoever is at a record may have been preempted there.
    if (attempt >= kSweepTriesAtOnce) usleep(kSweepPauseUs);
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

// The pin may be made anew by whoever writes the map: then that one counts, and ours is nobody's any more.
void Recorder::Impl::look_at_pin() {
  Result<ContextMap> pinned = open_context_map(options_.context_path);
  std::string problem = pinned ? pinned->problem : pinned.error().message();
  if (!problem.empty()) {
    if (problem != pin_problem_) log::warning("{}; recording goes on with what was there", problem);
    pin_problem_ = std::move(problem);
    return;
  }
  pin_problem_.clear();
  if (context_.fd && pinned->id == context_.id) return;
  if (pinned->created) {
    log::warning("the context map {} was gone, and is made anew: restart its writer so that it writes there",
                 options_.context_path);
  } else {
    log::info("the context map {} was made anew: spans come from it from here on", options_.context_path);
  }
  if (Status adopted = adopt(std::move(*pinned)); !adopted) {
    log::warning("{}; recording goes on without spans", adopted.error().message());
  }
}

// One update of a slot, unless the new map has another shape than the one that the programs were loaded with.
Status Recorder::Impl::adopt(ContextMap map) {
  context_ = std::move(map);
  const std::uint32_t slot = 0;
  const int inner = context_.fd.get();
  const bool hooks_fit = hooked_ == (wanted_hooks() != Hooks::kNone) || options_.lifecycle == Lifecycle::kAuto;
  if (hooks_fit && bpf_map_update_elem(bpf_map__fd(skeleton_->maps.context), &slot, &inner, BPF_ANY) == 0) {
    std::atomic_ref<__u32>(skeleton_->bss->context_id).store(context_.id);
  } else if (Status loaded = load(); !loaded) {
    return loaded;
  }
  mark_left_entries();
  return ok();
}

Result<Bank> Recorder::Impl::flush(Sink& sink, bool forget) {
  look_at_pin();
  const std::uint64_t owed = owed_before_ + clocks_->owed();
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
  if (!bank) return bank;
  bank->missed = take_missed(owed, bank->ticks);
  if (hooked_) bank->recursion_misses = hook_watch_.take_recursion_misses(*skeleton_);
  if (options_.span_times) bank->carried = view_.carried();
  return bank;
}

Status Recorder::Impl::set_frequency(std::uint32_t frequency_hz) {
  options_.frequency_hz = frequency_hz;
  return clocks_->set_frequency(frequency_hz);
}

Status Recorder::Impl::sweep(Sink& sink) {
  if (Status swept = sweep_once(); !swept) return swept;
  if (hooked_ && options_.lifecycle == Lifecycle::kAuto) {
    const std::uint64_t rate = hook_watch_.take_foreign_rate(*skeleton_);
    if (rate > kMostForeignPerSecond) {
      log::info(
          "other LRU maps on this host call the hooks on the context map {} times a second, more than {}: ends of "
          "spans are seen by samples and a sweep from here on",
          rate, kMostForeignPerSecond);
      unhook(*skeleton_);
      hooked_ = false;
      gave_up_hooks_ = true;
    }
  }
  return drain(sink);
}

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
Lifecycle Recorder::lifecycle() const { return impl_->lifecycle(); }
std::uint64_t Recorder::sweep_period_ns() const {
  return lifecycle() == Lifecycle::kFentry ? kSweepBesideHooksNs : kSweepAloneNs;
}
std::int64_t Recorder::clock_shift_ns() const { return impl_->clock_shift_ns(); }
ContextState Recorder::context_state() const { return impl_->context_state(); }
bool Recorder::context_created() const { return impl_->context_created(); }

}  // namespace spanfold::bpf
