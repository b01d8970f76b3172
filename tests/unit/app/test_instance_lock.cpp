// SPDX-License-Identifier: Apache-2.0
// Lines of /proc/locks. (That recorders see each other: tests/e2e/test_diagnosis.py.)
#include <doctest/doctest.h>
#include <sys/sysmacros.h>

#include "app/instance_lock.h"

using spanfold::app::find_flock_holder;

TEST_CASE("the holder of a flock is found among other locks") {
  constexpr std::string_view kLocks =
      "1: POSIX  ADVISORY  WRITE 11 00:27:26187 0 EOF\n"
      "2: FLOCK  ADVISORY  WRITE 12 00:28:26187 0 EOF\n"
      "3: FLOCK  ADVISORY  WRITE 13 00:27:2618 0 EOF\n"
      "4: FLOCK  ADVISORY  READ  14 00:27:26187 0 EOF\n"
      "4: -> FLOCK  ADVISORY  WRITE 15 00:27:26187 0 EOF\n"
      "5: FLOCK  ADVISORY  READ  -1 00:27:26187 0 EOF\n"
      "6: FLOCK  ADVISORY  READ  16 00:27:26187 0 EOF\n";
  const dev_t device = makedev(0, 0x27);
  CHECK(find_flock_holder(kLocks, device, 26187, 1) == 14);
  CHECK(find_flock_holder(kLocks, device, 26187, 14) == 16);
  CHECK(find_flock_holder(kLocks, makedev(0, 0x28), 26187, 1) == 12);
  CHECK(find_flock_holder(kLocks, makedev(0, 0x28), 26187, 12) == std::nullopt);
  CHECK(find_flock_holder(kLocks, makedev(8, 1), 26187, 1) == std::nullopt);
  CHECK(find_flock_holder("", device, 26187, 1) == std::nullopt);
  CHECK(find_flock_holder("no locks at all", device, 26187, 1) == std::nullopt);
}
