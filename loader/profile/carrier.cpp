// SPDX-License-Identifier: Apache-2.0
#include "profile/carrier.h"

#include <algorithm>
#include <utility>

#include "profile/span_times.h"

namespace spanfold::profile {
namespace {

// `window` becomes both: the window encloses `earlier`, the accounting is the sum.
void absorb(Window& window, const Window& earlier) {
  const std::uint64_t end =
      std::max(window.start_unix_nano + window.duration_ns, earlier.start_unix_nano + earlier.duration_ns);
  window.start_unix_nano = std::min(window.start_unix_nano, earlier.start_unix_nano);
  window.duration_ns = end - window.start_unix_nano;
  window.accounting += earlier.accounting;
}

}  // namespace

bool has_on_cpu(const Window& window) {
  return std::any_of(window.processes.begin(), window.processes.end(), [](const ProcessSamples& process) {
    return std::any_of(process.on_cpu.begin(), process.on_cpu.end(),
                       [](const Sample& sample) { return sample.value != 0; });
  });
}

bool has_samples(const Window& window) {
  return has_on_cpu(window) ||
         std::any_of(window.processes.begin(), window.processes.end(), [](const ProcessSamples& process) {
           return std::any_of(process.span_times.begin(), process.span_times.end(), has_stays);
         });
}

std::optional<Window> WindowCarrier::admit(Window window) {
  if (carried_) absorb(window, *carried_);
  if (has_samples(window)) {
    carried_.reset();
    return window;
  }
  // Frames die with the window: nothing that points to them may stay.
  for (ProcessSamples& process : window.processes) {
    process.on_cpu.clear();
    process.span_times.clear();
  }
  carried_ = std::move(window);
  return std::nullopt;
}

std::optional<Window> WindowCarrier::take_last() { return std::exchange(carried_, std::nullopt); }

}  // namespace spanfold::profile
