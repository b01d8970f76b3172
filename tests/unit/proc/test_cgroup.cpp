// SPDX-License-Identifier: Apache-2.0
// Control groups by path and by name, and their members out of the folders that show them.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../temporary_folder.h"
#include "proc/cgroup.h"

namespace spanfold::proc {
namespace {

using Pids = std::vector<std::uint32_t>;

void write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("mounts of cgroups: v2 first, paths as they are") {
  const auto mounts = cgroup_mounts(
      "22 1 0:20 / /proc rw,nosuid shared:4 - proc proc rw\n"
      "30 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 master:1 - cgroup cgroup rw,cpu,cpuacct\n"
      "31 25 0:27 /docker/ab /mnt/with\\040space\\134 rw - cgroup cgroup rw,name=systemd\n"
      "32 25 0:28 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw,nsdelegate\n"
      "33 25 0:29 / /mnt/cgroup rw shared:10 - tmpfs cgroup2 rw\n"
      "34 25 0:30 / /mnt/cgroup\n"
      "\n"
      "35 25 0:31 / /last rw - cgroup none rw");
  REQUIRE(mounts.size() == 4);
  CHECK(mounts[0].path == "/sys/fs/cgroup/unified");
  CHECK(mounts[0].is_v2);
  CHECK(mounts[1].path == "/sys/fs/cgroup/cpu,cpuacct");
  CHECK(!mounts[1].is_v2);
  CHECK(mounts[2].path == "/mnt/with space\\");
  CHECK(mounts[3].path == "/last");
  CHECK(cgroup_mounts("").empty());
}

TEST_CASE("what is no group is not taken for one") {
  const test::TemporaryFolder folder;
  write(folder / "file", "");
  const auto plain = open_cgroup(folder.path());
  REQUIRE(!plain);
  CHECK(plain.error().failure == Failure::kUsage);
  CHECK(plain.error().what == folder.path().string() + " is no cgroup");
  CHECK(!plain.error().hint.empty());
  const auto file = open_cgroup(folder / "file");
  REQUIRE(!file);
  CHECK(file.error().failure == Failure::kUsage);
  const auto missing = open_cgroup(folder / "missing");
  REQUIRE(!missing);
  CHECK(missing.error().code == ENOENT);
  CHECK(missing.error().failure == Failure::kFailed);
}

TEST_CASE("a name that no mount has") {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "web");
  // The folder is there, but it is no group.
  const std::vector<CgroupMount> mounts = {{.path = folder.path(), .is_v2 = true}};
  for (const std::string name : {"web", "/web", "other"}) {
    const auto found = find_cgroup(name, mounts);
    REQUIRE(!found);
    CHECK(found.error().code == ENOENT);
    CHECK(found.error().what == "find the cgroup " + name);
    CHECK(found.error().hint.find(folder.path()) != std::string::npos);
  }
  const auto nowhere = find_cgroup("web", {});
  REQUIRE(!nowhere);
  CHECK(nowhere.error().hint == "no cgroup file system is mounted");
  // By its path, a folder that is there is judged as what it is.
  CHECK(find_cgroup(folder / "web", mounts).error().failure == Failure::kUsage);
}

TEST_CASE("members are those of the group and of all below it, each once") {
  const test::TemporaryFolder folder;
  write(folder / "group/cgroup.procs", "12\n7\n0\n0\n4194304\n");
  write(folder / "group/a/cgroup.procs", "7\n3\n");
  write(folder / "group/a/b/c/cgroup.procs", "100\nx\n5");
  write(folder / "beside/cgroup.procs", "99\n");
  std::filesystem::create_directories(folder / "group/going");  // its file has gone already
  std::filesystem::create_directory_symlink(folder / "beside", folder / "group/link");
  const auto members = cgroup_members(folder / "group");
  REQUIRE(members);
  CHECK(*members == Pids{3, 5, 7, 12, 100, 4194304});
  CHECK(!is_empty_cgroup(folder / "group"));
}

TEST_CASE("an empty group, one that is gone, and one that does not tell") {
  const test::TemporaryFolder folder;
  write(folder / "empty/cgroup.procs", "");
  write(folder / "empty/below/cgroup.procs", "");
  const auto members = cgroup_members(folder / "empty");
  REQUIRE(members);
  CHECK(members->empty());
  CHECK(is_empty_cgroup(folder / "empty"));
  write(folder / "empty/below/cgroup.procs", "1\n");
  CHECK(!is_empty_cgroup(folder / "empty"));
  const auto gone = cgroup_members(folder / "gone");
  REQUIRE(!gone);
  CHECK(gone.error().code == ENOENT);
  CHECK(!is_empty_cgroup(folder / "gone"));
}

}  // namespace spanfold::proc
