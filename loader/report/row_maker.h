// SPDX-License-Identifier: Apache-2.0
// A row's names: its key, and what all that is in it has in common.
#pragma once

#include <cstdint>
#include <string>

#include "report/group.h"

namespace spanfold::report {

class RowMaker {
 public:
  RowMaker(const Recording& recording, By by) : recording_(recording), by_(by) {}

  // The row that `entry` belongs to, with the names of its process, and no cost.
  [[nodiscard]] Row make(const Entry& entry) const;
  // Takes from `row` what is not true of `process` too.
  void agree(Row& row, std::uint32_t process) const;
  [[nodiscard]] std::string service_key(const Entry& entry) const;

 private:
  void name(Row& row, const Entry& entry) const;

  const Recording& recording_;
  By by_;
};

}  // namespace spanfold::report
