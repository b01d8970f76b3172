// SPDX-License-Identifier: Apache-2.0
// Which entries of a Recording a Query asks for.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "report/query.h"
#include "report/recording.h"

namespace spanfold::report {

class Filter {
 public:
  Filter(const Recording& recording, const Query& query);
  [[nodiscard]] bool keeps(const Entry& entry) const;
  [[nodiscard]] bool keeps(const TimedStay& stay) const;  // by span and process: it has no stack

 private:
  std::array<bool, kKindCount> kinds_{};
  std::vector<bool> spans_, processes_, stacks_;  // by number in the recording; empty: all
};

// Whether the user's `wanted` means `name`: all of it, all but its parameters, or the last part of that.
[[nodiscard]] bool is_function(std::string_view name, std::string_view wanted);

}  // namespace spanfold::report
