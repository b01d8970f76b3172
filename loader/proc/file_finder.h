// SPDX-License-Identifier: Apache-2.0
// Opens files by what the kernel told of them, also when the process that mapped them is gone. What cannot be shown to
// be the very file is not opened: a wrong name is worse than none.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "proc/binary.h"
#include "proc/binary_cache.h"
#include "proc/logged_image.h"

namespace spanfold::proc {

class FileFinder {
 public:
  explicit FileFinder(BinaryCache& binaries) : binaries_(binaries) {}

  // The binary behind a mapping. Looks at its path below the roots of `pids`, of this process and of the first one, and
  // then among the open binaries for its build id. A file is the right one by its build id, or where the kernel knew
  // none, by device, inode, and not having been written or made since it was mapped. What was not found is not looked
  // for again for a second.
  [[nodiscard]] std::shared_ptr<Binary> find(const LoggedMapping& mapping, std::span<const std::uint32_t> pids);

 private:
  [[nodiscard]] std::shared_ptr<Binary> open(const LoggedMapping& mapping, std::uint32_t pid);
  [[nodiscard]] std::shared_ptr<Binary> vdso(const LoggedMapping& mapping);

  BinaryCache& binaries_;
};

}  // namespace spanfold::proc
