// SPDX-License-Identifier: Apache-2.0
// What --cgroup names, before there is a kernel side to tell of it: what is found, and what is said of what is not.
#include <doctest/doctest.h>

#include <string>

#include "../temporary_folder.h"
#include "app/cgroup_filter.h"

namespace spanfold::app {

TEST_CASE("no group is no filter") {
  CgroupFilter filter;
  REQUIRE(filter.open({}));
  CHECK(filter.kernel_groups() == 0);
  CHECK(!filter.follows_members());
}

TEST_CASE("the first name that is no group is the error") {
  const test::TemporaryFolder folder;
  CgroupFilter filter;
  const Status plain = filter.open({folder.path(), "no-such-group"});
  REQUIRE(!plain);
  CHECK(plain.error().what == folder.path().string() + " is no cgroup");
  const Status missing = filter.open({"no-such-group", folder.path()});
  REQUIRE(!missing);
  CHECK(missing.error().what == "find the cgroup no-such-group");
  CHECK(!missing.error().hint.empty());
}

}  // namespace spanfold::app
