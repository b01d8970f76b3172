// SPDX-License-Identifier: Apache-2.0
#include "proc/symbolizer.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/log.h"
#include "proc/binary_cache.h"
#include "proc/identity.h"
#include "proc/interner.h"
#include "proc/kernel.h"
#include "proc/line_finder.h"
#include "proc/log_reader.h"
#include "proc/process.h"
#include "proc/procfs.h"
#include "proc/read_maps.h"

namespace spanfold::proc {
namespace {

struct KeyHash {
  std::size_t operator()(const ProcessKey& key) const {
    constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
    return (key.start_boottime_ns ^ std::uint64_t{key.pid} << 32 ^ key.exec_id) * kOdd;
  }
};

// The address to look up: the instruction that runs or calls.
std::uint64_t looked_up(std::uint64_t address, bool exact) { return exact || address == 0 ? address : address - 1; }

// Code that was entered by no call, so that a return address is its first byte. The byte before may be anybody's: Go's
// line table knows no gaps between functions.
constexpr std::array<std::string_view, 5> kTrampolines = {"__restore_rt", "__restore", "__kernel_rt_sigreturn",
                                                          "__kernel_sigreturn", "runtime.sigreturn__sigaction"};
constexpr std::string_view kContextStart = "__start_context";  // of glibc's makecontext

// What a signal handler returns to: the frame behind it did not call, it was interrupted.
bool is_trampoline(const std::string* name) {
  return name != nullptr && std::find(kTrampolines.begin(), kTrampolines.end(), *name) != kTrampolines.end();
}

bool correct_entered(const Process& process, std::uint64_t return_address, Frame& frame) {
  const Process::Region* region = process.region_at(return_address);
  if (region == nullptr || !region->binary) return false;
  const std::uint64_t file_offset = return_address - region->start + region->file_offset;
  const std::string* name = region->binary->function_beginning_at(file_offset);
  if (!is_trampoline(name) && (name == nullptr || *name != kContextStart)) return false;
  frame = region->binary->frame_at(file_offset, true);
  return true;
}

// How to get names; empty where the code may be of anything, a regular expression among others.
std::string_view remedy(FrameType type) {
  switch (type) {
    case FrameType::kV8js: return "start Node with --perf-basic-prof";
    case FrameType::kJvm: return "run jcmd PID Compiler.perfmap, and start the JVM with -XX:+PreserveFramePointer";
    case FrameType::kDotnet: return "start it with DOTNET_PerfMapEnabled=1";
    default: return {};
  }
}

}  // namespace

class Symbolizer::Impl {
 public:
  explicit Impl(Options options)
      : options_(options),
        lines_(interner_),
        binaries_(interner_, options.lines ? &lines_ : nullptr),
        reader_(shared_),
        kernel_(interner_, options.local_symbols) {}

  MappingLog& log() { return reader_.log(); }
  LineFinder& lines() { return lines_; }
  void notice(const ProcessKey& key, const ImageTag& image, std::uint64_t seen_ns) {
    Process& process = process_of(key);
    reader_.bring_up(process, image, seen_ns);
    process.prepare(image, shared_);
  }
  void prepare_kernel() { (void)kernel_.frame_at(~std::uint64_t{0}); }
  // True where the stack came out of user space by a system call.
  bool resolve_kernel(std::span<const std::uint64_t> stack, std::vector<Frame>& frames);
  void resolve_user(const ProcessKey& key, const ImageTag& image, std::span<const std::uint64_t> stack,
                    bool first_exact, std::vector<Frame>& frames);
  bool rename(const ProcessKey& key, std::uint64_t& version, std::span<Frame> frames);
  const ProcessAttributes& attributes(const ProcessKey& key) const;
  const Process* known(const ProcessKey& key) const {
    const auto place = processes_.find(key);
    return place == processes_.end() ? nullptr : &place->second;
  }
  void look_again(const ProcessKey& key, const ImageTag& image) { process_of(key).look_again(image, shared_); }
  std::vector<std::shared_ptr<const ByteSource>> keep_files_of(std::uint32_t pid);
  void forget_gone();
  void forget_all();
  Usage usage() const;

 private:
  Process& process_of(const ProcessKey& key) { return processes_.try_emplace(key, key).first->second; }
  Frame user_frame(Process& process, const ImageTag& image, std::uint64_t address);
  std::optional<Frame> generated_frame(Process& process, const Process::Region& region, std::uint64_t address);
  void count(const Process& process, bool named);
  bool is_gone(const Process& process);

  Options options_;
  Interner interner_;
  LineFinder lines_;
  BinaryCache binaries_;
  JitBudget jit_;
  Shared shared_{binaries_, interner_, jit_};
  LogReader reader_;
  Kernel kernel_;
  std::unordered_map<ProcessKey, Process, KeyHash> processes_;
  std::vector<std::shared_ptr<Binary>> kept_;
  std::size_t stat_budget_ = 0;  // how many idle processes this forget_gone() may still look at closely
  ProcessAttributes no_attributes_;
  const Mapping* generated_ = nullptr;  // of all code that lies in no file
  bool said_unnamed_ = false;
  bool said_left_out_ = false;
};

bool Symbolizer::Impl::resolve_kernel(std::span<const std::uint64_t> stack, std::vector<Frame>& frames) {
  constexpr std::size_t kEntryFrames = 4;  // entry code is among the outermost few
  bool exact = true;
  bool syscall = false;
  for (std::size_t i = 0; i < stack.size(); ++i) {
    const auto [frame, symbol] = kernel_.frame_at(looked_up(stack[i], exact));
    frames.push_back(frame);
    exact = Kernel::is_interrupt_entry(symbol);
    if (i + kEntryFrames >= stack.size()) syscall = syscall || Kernel::is_syscall_entry(symbol);
  }
  return syscall;
}

Frame Symbolizer::Impl::user_frame(Process& process, const ImageTag& image, std::uint64_t address) {
  const Process::Region* region = process.region_at(address);
  if (region == nullptr && process.look_again(image, shared_)) region = process.region_at(address);
  if (region == nullptr) return {.address = address};
  if (region->generated) {
    const auto frame = generated_frame(process, *region, address);
    if (frame) return *frame;
  }
  const std::uint64_t file_offset = address - region->start + region->file_offset;
  if (region->binary) return region->binary->frame_at(file_offset, options_.local_symbols);
  if (region->plain != nullptr) return {.mapping = region->plain, .address = file_offset};
  return {.address = address};
}

// None where a file is all that is known.
std::optional<Frame> Symbolizer::Impl::generated_frame(Process& process, const Process::Region& region,
                                                       std::uint64_t address) {
  const auto name = options_.local_symbols ? process.jit_name(address, shared_) : std::nullopt;
  if (!name && region.binary) return {};
  if (generated_ == nullptr) generated_ = interner_.mapping({.filename = "[anon jit]"});
  Frame frame{.mapping = generated_, .address = address, .type = process.jit().type()};
  if (name) {
    frame.function = name->function;
    frame.type = name->type;
  }
  count(process, name.has_value());
  return frame;
}

void Symbolizer::Impl::count(const Process& process, bool named) {
  ++(named ? jit_.named : jit_.unnamed);
  const std::string_view hint = remedy(process.jit().type());
  if (named || said_unnamed_ || hint.empty() || process.jit().has_logs() || !options_.local_symbols) return;
  said_unnamed_ = true;
  const ProcessAttributes& attributes = process.attributes();
  const auto name = std::find_if(attributes.begin(), attributes.end(),
                                 [](const auto& entry) { return entry.first == "process.executable.name"; });
  log::warning("generated code of {} (pid {}), and maybe of others, has no names: {}",
               name == attributes.end() ? "a process" : name->second, process.key().pid, hint);
}

void Symbolizer::Impl::resolve_user(const ProcessKey& key, const ImageTag& image, std::span<const std::uint64_t> stack,
                                    bool first_exact, std::vector<Frame>& frames) {
  if (stack.empty()) return;
  Process& process = process_of(key);
  const bool believed = process.prepare(image, shared_);
  bool exact = first_exact;
  for (const std::uint64_t given : stack) {
    const std::uint64_t address = looked_up(given, exact);
    Frame frame{.address = address};
    if (believed) frame = user_frame(process, image, address);
    if (believed && options_.local_symbols && address != given) correct_entered(process, given, frame);
    exact = is_trampoline(frame.function);
    frames.push_back(frame);
  }
}

bool Symbolizer::Impl::rename(const ProcessKey& key, std::uint64_t& version, std::span<Frame> frames) {
  const auto place = processes_.find(key);
  if (place == processes_.end() || !options_.local_symbols) return false;
  const std::uint64_t now = place->second.names_version(shared_);
  if (now == version) return false;
  version = now;
  bool changed = false;
  for (Frame& frame : frames) {
    if (frame.mapping == nullptr || frame.mapping != generated_) continue;
    const auto name = place->second.jit_name(frame.address, shared_);
    if (!name || name->function == frame.function) continue;
    frame.function = name->function;
    frame.type = name->type;
    changed = true;
  }
  return changed;
}

const ProcessAttributes& Symbolizer::Impl::attributes(const ProcessKey& key) const {
  const auto place = processes_.find(key);
  return place == processes_.end() ? no_attributes_ : place->second.attributes();
}

bool Symbolizer::Impl::is_gone(const Process& process) {
  const auto pid = static_cast<pid_t>(process.key().pid);
  if (::kill(pid, 0) != 0 && errno == ESRCH) return true;
  if (process.idle().used || stat_budget_ == 0) return false;
  // Somebody has this pid. Only who was idle can be somebody else unnoticed.
  --stat_budget_;
  const Fd folder = open_process_folder(process.key().pid);
  const auto stat = folder ? read_stat(folder.get()) : std::nullopt;
  return !stat || !is_same_process(*stat, process.key());
}

void Symbolizer::Impl::forget_gone() {
  constexpr std::size_t kStatBudget = 256;  // 20 µs each
  stat_budget_ = kStatBudget;
  // The latest of each pid: others with that pid are gone, or were something else before an exec.
  std::unordered_map<std::uint32_t, ProcessKey> latest;
  for (const auto& [key, process] : processes_) {
    ProcessKey& known = latest[key.pid];
    known = std::max(known, key);
  }
  // Dropped when seen gone twice: stacks of its last moments are still on their way at the first time.
  for (auto place = processes_.begin(); place != processes_.end();) {
    Process& process = place->second;
    const bool gone = latest[process.key().pid] != process.key() || is_gone(process);
    const bool drop = gone && process.idle().seen_gone && !process.idle().used;
    process.set_idle(gone);
    place = drop ? processes_.erase(place) : std::next(place);
  }
  binaries_.drop_unused();
  binaries_.leave_room_for(kernel_.memory_bytes());
  lines_.drop_unused();
  if ((jit_.ranges_left_out > 0 || jit_.given_up > 0) && !said_left_out_) {
    said_left_out_ = true;
    log::warning("JIT compilers say more than is kept: {} ranges of code are left out, {} files are not read",
                 jit_.ranges_left_out, jit_.given_up);
  }
}

std::vector<std::shared_ptr<const ByteSource>> Symbolizer::Impl::keep_files_of(std::uint32_t pid) {
  std::vector<std::shared_ptr<const ByteSource>> files;
  const Fd folder = open_process_folder(pid);
  const auto ranges = folder ? read_maps(folder.get()) : std::nullopt;
  for (const MapRange& range : ranges.value_or(std::vector<MapRange>{})) {
    std::shared_ptr<Binary> binary;
    if (range.is_vdso()) binary = binaries_.of_vdso(folder.get(), range);
    if (range.has_file()) binary = binaries_.of_file(folder.get(), range);
    if (!binary) continue;
    files.push_back(binary->shared_source());
    kept_.push_back(std::move(binary));
  }
  return files;
}

void Symbolizer::Impl::forget_all() {
  processes_.clear();
  kept_.clear();
  lines_.clear();
  binaries_.clear();
  kernel_.clear();
  interner_.clear();
  generated_ = nullptr;
}

Usage Symbolizer::Impl::usage() const {
  std::size_t jit_bytes = 0;
  for (const auto& [key, process] : processes_) jit_bytes += process.jit().memory_bytes();
  return {.processes = processes_.size(),
          .files = binaries_.open_files(),
          .names_bytes = interner_.memory_bytes(),
          .tables_bytes = binaries_.memory_bytes() + kernel_.memory_bytes() + jit_bytes,
          .jit_frames = jit_.named + jit_.unnamed,
          .jit_frames_unnamed = jit_.unnamed};
}

Symbolizer::Symbolizer(Options options) : impl_(std::make_unique<Impl>(options)) {}
Symbolizer::~Symbolizer() = default;

void Symbolizer::resolve(const ProcessKey& key, const ImageTag& image, std::span<const std::uint64_t> kernel,
                         std::span<const std::uint64_t> user, std::vector<Frame>& frames) {
  // The process first: it may be gone by the time that the kernel's symbols have been read.
  if (!user.empty()) impl_->notice(key, image, 0);
  const bool syscall = impl_->resolve_kernel(kernel, frames);
  impl_->resolve_user(key, image, user, !syscall, frames);
}

const ProcessAttributes& Symbolizer::attributes(const ProcessKey& key) { return impl_->attributes(key); }
TaskSink& Symbolizer::tasks() { return impl_->log(); }
void Symbolizer::notice(const ProcessKey& key, const ImageTag& image, std::uint64_t seen_ns) {
  impl_->notice(key, image, seen_ns);
}
void Symbolizer::forget_told(std::uint64_t told_ns) { impl_->log().forget_gone(told_ns); }
bool Symbolizer::rename(const ProcessKey& key, std::uint64_t& version, std::span<Frame> frames) {
  return impl_->rename(key, version, frames);
}
std::vector<CodeRange> Symbolizer::code_of(const ProcessKey& key) const {
  const Process* process = impl_->known(key);
  return process == nullptr ? std::vector<CodeRange>() : process->code();
}
std::uint64_t Symbolizer::code_version(const ProcessKey& key) const {
  const Process* process = impl_->known(key);
  return process == nullptr ? 0 : process->code_version();
}
std::vector<std::shared_ptr<const ByteSource>> Symbolizer::keep_files_of(std::uint32_t pid) {
  return impl_->keep_files_of(pid);
}
void Symbolizer::look_again(const ProcessKey& key, const ImageTag& image) { impl_->look_again(key, image); }
void Symbolizer::want_lines(std::span<const Frame> frames) { impl_->lines().want(frames); }
void Symbolizer::find_lines(int milliseconds, const std::function<bool()>& go_on) {
  impl_->lines().find(milliseconds, go_on);
}
bool Symbolizer::fill_lines(std::uint64_t& version, std::span<Frame> frames) const {
  return std::exchange(version, impl_->lines().answers()) != version && impl_->lines().fill(frames);
}
void Symbolizer::prepare_kernel() { impl_->prepare_kernel(); }
void Symbolizer::forget_gone() { impl_->forget_gone(); }
void Symbolizer::forget_all() { impl_->forget_all(); }
Usage Symbolizer::usage() const { return impl_->usage(); }

}  // namespace spanfold::proc
