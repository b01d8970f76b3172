// SPDX-License-Identifier: Apache-2.0
// Files that root makes under sudo belong to who typed it.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "profile/output.h"
#include "profile/owner.h"
#include "unit/profile/windows.h"
#include "unit/temporary_folder.h"

namespace spanfold::profile {
namespace {

namespace fs = std::filesystem;

class Sudo {
 public:
  Sudo(const char* user, const char* group) {
    ::setenv("SUDO_UID", user, 1);
    ::setenv("SUDO_GID", group, 1);
  }
  Sudo(const Sudo&) = delete;
  Sudo& operator=(const Sudo&) = delete;
  ~Sudo() {
    ::unsetenv("SUDO_UID");
    ::unsetenv("SUDO_GID");
  }
};

void check_given(const fs::path& path) {
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK(info.st_uid == 65533);
  CHECK(info.st_gid == 65532);
}

}  // namespace

TEST_CASE("who typed sudo is two plain numbers, or nobody") {
  ::unsetenv("SUDO_UID");
  if (::geteuid() != 0) {
    const Sudo sudo("1", "2");
    CHECK_FALSE(sudo_owner());
    return;
  }
  CHECK_FALSE(sudo_owner());
  {
    const Sudo sudo("65533", "65532");
    REQUIRE(sudo_owner());
    CHECK(sudo_owner()->user == 65533);
    CHECK(sudo_owner()->group == 65532);
  }
  for (const char* odd : {"", "-1", "+1", " 1", "1 ", "1x", "0x1", "4294967295", "4294967296"}) {
    const Sudo user(odd, "1");
    CHECK_FALSE(sudo_owner());
    const Sudo group("1", odd);
    CHECK_FALSE(sudo_owner());
  }
}

TEST_CASE("files that are made under sudo are given away, and so is a leftover's place") {
  if (::geteuid() != 0) {
    MESSAGE("SKIPPED: giving files away needs root");
    return;
  }
  const Sudo sudo("65533", "65532");
  const spanfold::test::TemporaryFolder temporary;
  const fs::path& folder = temporary.path();
  test::World world;
  const auto full = [&] {
    Window window = test::window(0, 1, 0);
    window.processes.push_back(
        {.resource = test::process(1, "shop"),
         .on_cpu = {{.frames = world.stack({world.frame("f")}), .span = test::span_of(1), .value = 1}}});
    return window;
  };
  const std::string file = (folder / "run.otlp").string();
  {
    auto killed = open_output({.path = file});
    REQUIRE(killed);
    CHECK((*killed)->write(full()));
    check_given(file + ".part");
  }
  for (const std::string& path : {file, (folder / "out/").string()}) {
    auto output = open_output({.path = path});
    REQUIRE(output);
    CHECK((*output)->write(full()));
    CHECK((*output)->close());
  }
  check_given(file);
  CHECK(fs::exists(file + ".old.part"));
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder / "out")) {
    check_given(entry.path());
    ++files;
  }
  CHECK(files == 1);
  struct stat info {};
  REQUIRE(::stat((folder / "out").c_str(), &info) == 0);
  CHECK(info.st_uid == 0);
}

}  // namespace spanfold::profile
