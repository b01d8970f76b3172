// SPDX-License-Identifier: Apache-2.0
#include "app/diagnosis.h"

#include "base/log.h"

namespace spanfold::app {
namespace {

// Enough to say that it is no accident, and a second's worth on one busy CPU.
constexpr std::uint64_t kEnoughSamples = 100;

}  // namespace

void Diagnosis::look(const bpf::Recorder& recorder, std::uint64_t in_span, std::uint64_t background, bool last) {
  if (in_span > 0) said_ = true;
  if (said_ || background < (last ? 1 : kEnoughSamples)) return;
  said_ = true;
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

}  // namespace spanfold::app
