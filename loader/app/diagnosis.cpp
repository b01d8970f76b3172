// SPDX-License-Identifier: Apache-2.0
#include "app/diagnosis.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "bpf/host.h"

namespace spanfold::app {
namespace {

constexpr std::uint64_t kLookEveryNs = 1'000'000'000;
// Samples outside of any span that make a process a busy one.
constexpr std::uint64_t kBusySamples = 50;
constexpr std::size_t kMostNames = 3;
// Processes that come and go while nobody carries a span: beyond this, those that were hardly busy are forgotten.
constexpr std::size_t kMostProcesses = 8192;

// The name of a process that runs a program; empty for what has ended, and for the kernel's own threads.
std::string name_of(std::uint32_t pid) {
  std::array<char, 1> any{};
  if (readlink(fmt::format("/proc/{}/exe", pid).c_str(), any.data(), any.size()) < 0) return {};
  const auto name = read_file(fmt::format("/proc/{}/comm", pid), 64);
  return name ? name->substr(0, name->find('\n')) : std::string();
}

}  // namespace

bool StillMap::wants_look(std::uint64_t now_ns) const {
  return !done_ && (!first_ || now_ns - looked_ns_ >= std::min(kLookEveryNs, patience_ns_));
}

bool StillMap::look(const bpf::ContextGlimpse& glimpse, std::uint64_t now_ns, std::uint64_t busy) {
  looked_ns_ = now_ns;
  if (glimpse.entries == 0 && !first_) return false;  // that it is empty is another matter
  if (!first_) first_ = Sight{.glimpse = glimpse, .at_ns = now_ns, .busy = busy};
  if (glimpse != first_->glimpse) {
    done_ = true;
    return false;
  }
  done_ = now_ns - first_->at_ns >= patience_ns_ && busy - first_->busy >= kEnoughSamples;
  return done_;
}

void Unserved::add(const bpf::Bank& bank) {
  for (const auto& [key, samples] : bank.by_process) processes_[key].samples += samples;
  for (const ProcessKey& key : bank.carriers) processes_[key].carried = true;
  any_carried_ |= !bank.carriers.empty();
  if (processes_.size() <= kMostProcesses) return;
  std::erase_if(processes_, [](const auto& each) { return each.second.samples < kBusySamples; });
  if (processes_.size() > kMostProcesses) processes_.clear();
}

std::vector<ProcessKey> Unserved::list() const {
  std::vector<std::pair<std::uint64_t, ProcessKey>> busy;
  for (const auto& [key, process] : processes_) {
    if (!process.carried && process.samples >= kBusySamples) busy.emplace_back(process.samples, key);
  }
  std::vector<ProcessKey> keys;
  if (!any_carried_) return keys;
  std::sort(busy.rbegin(), busy.rend());
  for (const auto& [samples, key] : busy) keys.push_back(key);
  return keys;
}

void Diagnosis::look_for_spans(const bpf::Recorder& recorder, std::uint64_t in_span, std::uint64_t background,
                               bool last) {
  if (in_span > 0) spans_said_ = true;
  if (spans_said_ || background < (last ? 1 : kEnoughSamples)) return;
  spans_said_ = true;
  switch (recorder.context_state()) {
    case bpf::ContextState::kUnusable: break;  // said when it was opened
    case bpf::ContextState::kEmpty:
      log::warning(
          "the context map {} is {} and empty: none of {} samples is in a span; OBI fills it only with "
          "OTEL_EBPF_BPF_POPULATE_TRACE_CONTEXT=true (ebpf.populate_trace_context)",
          path_, recorder.context_created() ? "new" : "present", background);
      break;
    case bpf::ContextState::kFilled:
      log::warning(
          "the context map {} has entries, but none for the threads that were sampled: none of {} samples is in "
          "a span; is the service among those that OBI instruments, and inside the filters given here?",
          path_, background);
      break;
  }
}

void Diagnosis::look_for_change(std::uint64_t now_ns, std::uint64_t busy) {
  if (!still_.wants_look(now_ns)) return;
  const auto glimpse = bpf::glimpse_context_map(path_);
  if (!glimpse || !still_.look(*glimpse, now_ns, busy)) return;
  log::warning(
      "the context map {} has {} entries, unchanged for {:.0f} s: is OBI still running? restart it with "
      "OTEL_EBPF_BPF_POPULATE_TRACE_CONTEXT=true",
      path_, glimpse->entries, static_cast<double>(patience_ns_) / 1e9);
}

void Diagnosis::look_for_unserved(const bpf::Bank& bank, std::uint64_t now_ns, bool last) {
  if (!unserved_ || !bpf::in_host_pid_namespace()) return;
  unserved_->add(bank);
  // A process may be about to get its first span.
  if (!last && now_ns - begin_ns_ < patience_ns_) return;
  std::string names;
  std::size_t count = 0;
  for (const ProcessKey& key : unserved_->list()) {
    const std::string name = key.pid == static_cast<std::uint32_t>(getpid()) ? "" : name_of(key.pid);
    if (name.empty() || ++count > kMostNames) continue;
    names += fmt::format("{}{} (pid {})", names.empty() ? "" : ", ", name, key.pid);
  }
  if (count == 0) return;
  unserved_.reset();
  log::info(
      "busy, but never in a span, while others were: {}{}; OBI fills the context map for the processes and languages "
      "that it instruments only (OTEL_EBPF_AUTO_TARGET_EXE, OTEL_EBPF_OPEN_PORT), and with "
      "OTEL_EBPF_BPF_POPULATE_TRACE_CONTEXT=true",
      names, count > kMostNames ? fmt::format(" and {} more", count - kMostNames) : "");
}

void Diagnosis::look(const bpf::Recorder& recorder, const bpf::Bank& bank, std::uint64_t in_span,
                     std::uint64_t background, bool last) {
  const std::uint64_t now_ns = boot_clock_ns();
  if (begin_ns_ == 0) begin_ns_ = now_ns;
  look_for_spans(recorder, in_span, background, last);
  look_for_change(now_ns, in_span + background);
  look_for_unserved(bank, now_ns, last);
}

}  // namespace spanfold::app
