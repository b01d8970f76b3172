// SPDX-License-Identifier: Apache-2.0
#include "bpf/recorder.h"

#include <bpf/bpf.h>
#include <sys/random.h>

#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "bpf/context_map.h"
#include "bpf/kernel_side.h"
#include "bpf/task_events.h"

namespace spanfold::bpf {
namespace {

// Where hooks see the ends of spans, the sweep only makes good what they miss.
constexpr std::uint64_t kSweepBesideHooksNs = 1'000'000'000;
constexpr std::uint64_t kSweepAloneNs = 100'000'000;

}  // namespace

class Recorder::Impl {
 public:
  Status open(const RecorderOptions& options);
  Result<Bank> flush(Sink& sink, bool forget);
  Status set_frequency(std::uint32_t frequency_hz);
  Status sweep(Sink& sink);
  KernelSide& kernel() { return kernel_; }
  Status start();
  [[nodiscard]] int tasks_fd() const { return tasks_ ? tasks_->wakeup_fd() : -1; }
  std::uint64_t drain_tasks(TaskSink& sink);
  [[nodiscard]] Lifecycle lifecycle() const { return kernel_.hooked() ? Lifecycle::kFentry : Lifecycle::kSweep; }
  [[nodiscard]] std::int64_t clock_shift_ns() const { return clock_shift_ns_; }
  [[nodiscard]] ContextState context_state() const;
  [[nodiscard]] bool context_created() const { return context_.created; }

 private:
  Status load();
  void open_tasks();
  void measure_clock_shift();
  void mark_left_entries();
  [[nodiscard]] Hooks wanted_hooks() const;
  void look_at_pin();
  Status adopt(ContextMap map);
  void look_at_foreign_maps();
  std::uint64_t take_missed(std::uint64_t owed, std::uint64_t ticks);
  void tell_misses(Bank& bank);

  RecorderOptions options_;
  std::uint64_t seed_ = 0;
  ContextMap context_;
  std::string pin_problem_;  // said
  KernelSide kernel_;
  std::optional<TaskEvents> tasks_;
  bool gave_up_hooks_ = false;
  bool unhooked_ = false;  // since the last flush
  std::int64_t clock_shift_ns_ = 0;
  std::uint64_t ticks_ = 0;   // of all flushes
  std::uint64_t missed_ = 0;  // already published
};

// Hooks are on what changes LRU hashes; whoever pinned another kind gets the sweep.
Hooks Recorder::Impl::wanted_hooks() const {
  if (options_.lifecycle == Lifecycle::kSweep || gave_up_hooks_ || !context_.fd) return Hooks::kNone;
  bpf_map_info info{};
  std::uint32_t length = sizeof(info);
  const bool lru = bpf_obj_get_info_by_fd(context_.fd.get(), &info, &length) == 0 && info.type == BPF_MAP_TYPE_LRU_HASH;
  if (!lru) return Hooks::kNone;
  return options_.lifecycle == Lifecycle::kFentry ? Hooks::kMust : Hooks::kTry;
}

Status Recorder::Impl::load() {
  ProgramOptions programs;
  programs.sizes = options_.sizes;
  programs.seed = seed_;
  programs.filter_targets = options_.follow_forks || !options_.pids.empty() || !options_.tids.empty();
  programs.filter_members = options_.members_only;
  programs.cgroups = options_.groups;
  programs.follow_forks = options_.follow_forks;
  programs.background_stacks = options_.background_stacks;
  programs.span_times = options_.span_times;
  programs.max_age_ns = options_.max_age_ns;
  programs.max_frames = options_.max_frames;
  programs.hooks = wanted_hooks();
  programs.context_fd = context_.fd.get();
  programs.context_id = context_.id;
  return kernel_.load(programs, options_.frequency_hz, options_.cpus);
}

// In a time namespace this process's boot clock is not the one that the programs read.
void Recorder::Impl::measure_clock_shift() {
  constexpr std::int64_t kNoiseNs = 10'000'000;
  const std::uint64_t before_ns = boot_clock_ns();
  const Result<std::uint64_t> programs_ns = kernel_.read_clock_ns();
  if (!programs_ns) return;
  const auto shift_ns = static_cast<std::int64_t>(*programs_ns - (before_ns + boot_clock_ns()) / 2);
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
    if (Status added = kernel_.targets().add(pid, TargetKind::kProcess); !added) return added;
  }
  for (const std::uint32_t tid : options_.tids) {
    if (Status added = kernel_.targets().add(tid, TargetKind::kThread); !added) return added;
  }
  open_tasks();
  measure_clock_shift();
  mark_left_entries();
  return ok();
}

// Processes that were named can be read from /proc, and their descendants are not asked for. Without what the kernel
// tells, that is how all are read.
void Recorder::Impl::open_tasks() {
  if (!options_.follow_forks && !(options_.pids.empty() && options_.tids.empty())) return;
  auto opened = TaskEvents::open(options_.sizes.task_bytes);
  if (opened) {
    tasks_ = std::move(*opened);
  } else {
    log::debug("{}: processes that live for milliseconds may stay without names", opened.error().message());
  }
}

Status Recorder::Impl::start() {
  if (tasks_) {
    if (Status started = tasks_->start(); !started) return started;
  }
  return kernel_.start();
}

std::uint64_t Recorder::Impl::drain_tasks(TaskSink& sink) {
  const std::uint64_t now_ns = boot_clock_ns() + static_cast<std::uint64_t>(clock_shift_ns_);
  if (tasks_) tasks_->drain(now_ns, sink);
  return now_ns;
}

void Recorder::Impl::mark_left_entries() {
  if (!context_.fd) return;
  const std::size_t left = kernel_.mark_left_behind(context_.fd.get());
  if (left == 0) return;
  log::info("{} entries of the context map are of threads that are gone: a writer ended without taking them away",
            left);
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

// One update of a slot, unless the new map has another shape than the one that the programs were loaded for, or is the
// first of all, which decides on the hooks.
Status Recorder::Impl::adopt(ContextMap map) {
  const ContextMap old = std::exchange(context_, std::move(map));
  const bool first = !old.fd && wanted_hooks() != Hooks::kNone;
  if (first || !kernel_.bind_context(context_.fd.get(), context_.id)) {
    if (Status loaded = load(); !loaded) return loaded;
  }
  mark_left_entries();
  return ok();
}

Result<Bank> Recorder::Impl::flush(Sink& sink, bool forget) {
  look_at_pin();
  const std::uint64_t owed = kernel_.owed();
  kernel_.count_misses_before_step();
  const Result<std::uint32_t> over = kernel_.step_epoch(forget);
  if (!over) return over.error();
  if (Status swept = kernel_.sweep_out(sink); !swept) log::warning("{}", swept.error().message());
  Result<Bank> bank = kernel_.read_bank(*over);
  if (!bank) return bank;
  bank->missed = take_missed(owed, bank->ticks);
  if (options_.span_times) bank->carried = kernel_.carried();
  tell_misses(*bank);
  return bank;
}

// Last of all, so that nothing missed before the look at what threads carry is left out.
void Recorder::Impl::tell_misses(Bank& bank) {
  const bool unhooked = std::exchange(unhooked_, false);
  const HookMisses::OfFlush misses = kernel_.take_misses();
  if (kernel_.hooked() || unhooked) bank.recursion_misses = misses.fresh;
  bank.blind = misses.any || unhooked || bank.side["busy"] > 0;
}

Status Recorder::Impl::set_frequency(std::uint32_t frequency_hz) {
  options_.frequency_hz = frequency_hz;
  return kernel_.set_frequency(frequency_hz);
}

// A packet filter may keep a map that it writes for every packet.
void Recorder::Impl::look_at_foreign_maps() {
  if (!kernel_.hooked() || options_.lifecycle != Lifecycle::kAuto) return;
  const std::uint64_t rate = kernel_.take_foreign_rate();
  if (rate <= kMostForeignPerSecond) return;
  log::info(
      "other LRU maps on this host call the hooks on the context map {} times a second, more than {}: ends of spans "
      "are "
      "seen by samples and a sweep from here on",
      rate, kMostForeignPerSecond);
  kernel_.unhook();
  gave_up_hooks_ = unhooked_ = true;
}

Status Recorder::Impl::sweep(Sink& sink) {
  if (Status swept = kernel_.sweep(); !swept) return swept;
  look_at_foreign_maps();
  return kernel_.drain(sink);
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

Targets Recorder::targets() const { return impl_->kernel().targets(); }
Status Recorder::start() { return impl_->start(); }
void Recorder::stop() { impl_->kernel().stop(); }
int Recorder::wakeup_fd() const { return impl_->kernel().wakeup_fd(); }
Status Recorder::drain(Sink& sink) { return impl_->kernel().drain(sink); }
int Recorder::tasks_fd() const { return impl_->tasks_fd(); }
std::uint64_t Recorder::drain_tasks(TaskSink& sink) { return impl_->drain_tasks(sink); }
Result<Bank> Recorder::flush(Sink& sink, bool forget) { return impl_->flush(sink, forget); }
Status Recorder::set_frequency(std::uint32_t frequency_hz) { return impl_->set_frequency(frequency_hz); }
Status Recorder::sweep(Sink& sink) { return impl_->sweep(sink); }
UnwindStore& Recorder::unwind_store() { return impl_->kernel().unwind_store(); }
Lifecycle Recorder::lifecycle() const { return impl_->lifecycle(); }
std::uint64_t Recorder::sweep_period_ns() const {
  return lifecycle() == Lifecycle::kFentry ? kSweepBesideHooksNs : kSweepAloneNs;
}
std::int64_t Recorder::clock_shift_ns() const { return impl_->clock_shift_ns(); }
ContextState Recorder::context_state() const { return impl_->context_state(); }
bool Recorder::context_created() const { return impl_->context_created(); }

}  // namespace spanfold::bpf
