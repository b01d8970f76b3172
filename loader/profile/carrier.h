// SPDX-License-Identifier: Apache-2.0
// A window without samples and times of spans makes no message of its own: it waits here and becomes part of the next.
#pragma once

#include <optional>

#include "profile/model.h"

namespace spanfold::profile {

[[nodiscard]] bool has_on_cpu(const Window& window);
[[nodiscard]] bool has_samples(const Window& window);  // on the CPU, or of spans' times

class WindowCarrier {
 public:
  // What is to be written now: `window`, extended by what was carried (accounting added, window enclosing both), or
  // nothing when it has no samples, in which case it is carried on.
  [[nodiscard]] std::optional<Window> admit(Window window);

  // What is still carried, for the last message of a run; nothing when the last window had samples.
  [[nodiscard]] std::optional<Window> take_last();

 private:
  std::optional<Window> carried_;  // without samples
};

}  // namespace spanfold::profile
