// SPDX-License-Identifier: Apache-2.0
// Files below the root of a process: what is opened, and what is never.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "fixture.h"
#include "proc/procfs.h"
#include "proc/root_file.h"

namespace spanfold::proc::test {
namespace {

std::string text_of(int fd) {
  std::string text(100, '\0');
  const ssize_t got = ::read(fd, text.data(), text.size());
  text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return text;
}

// What an O_PATH descriptor leads to; "link" for a link itself.
std::string seen(const Fd& located) {
  struct stat status {};
  if (!located || ::fstat(located.get(), &status) != 0) return "nothing";
  if (S_ISLNK(status.st_mode)) return "link";
  const Fd opened(::open(("/proc/self/fd/" + std::to_string(located.get())).c_str(), O_RDONLY | O_CLOEXEC));
  return text_of(opened.get());
}

}  // namespace

TEST_CASE("root file: both ways lead to the same files, and never out of the root") {
  const TemporaryFolder folder;
  const std::string root_path = folder / "root";
  std::filesystem::create_directories(root_path + "/tmp");
  write_text(root_path + "/tmp/file", "inside");
  write_text(folder / "file", "outside");
  std::filesystem::create_symlink(folder / "file", root_path + "/tmp/absolute");
  std::filesystem::create_symlink("../../file", root_path + "/tmp/relative");
  std::filesystem::create_symlink("../..", root_path + "/tmp/above");
  std::filesystem::create_symlink("/tmp", root_path + "/linked");
  const Fd root(::open(root_path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (const auto locate : {locate_by_openat2, locate_by_walking}) {
    CHECK(seen(locate(root.get(), "/tmp/file")) == "inside");
    CHECK(seen(locate(root.get(), "/tmp//./file")) == "inside");
    CHECK(seen(locate(root.get(), "/tmp/absolute")) == "link");
    CHECK(seen(locate(root.get(), "/tmp/relative")) == "link");
    CHECK(seen(locate(root.get(), "/tmp/above/file")) == "nothing");
    CHECK(seen(locate(root.get(), "/../file")) == "nothing");
    CHECK(seen(locate(root.get(), "/tmp/missing")) == "nothing");
  }
  // Only the kernel can follow a link and promise to stay within.
  CHECK(seen(locate_by_openat2(root.get(), "/linked/file")) == "inside");
  CHECK(seen(locate_by_walking(root.get(), "/linked/file")) == "nothing");
}

TEST_CASE("root file: regular files only, and nothing blocks") {
  const TemporaryFolder folder;
  const Fd own = open_process_folder(static_cast<std::uint32_t>(::getpid()));
  write_text(folder / "file", "text");
  auto file = open_in_root(own.get(), folder / "file");
  REQUIRE(file);
  CHECK(text_of(file->fd.get()) == "text");
  CHECK(file->status.st_size == 4);
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  std::filesystem::create_symlink("file", folder / "link");
  for (const char* name : {"fifo", "link", "missing", "."}) CHECK(!open_in_root(own.get(), folder / name));
  CHECK(open_in_root(own.get(), folder / "link", LastLink::kFollowed));
  for (const char* name : {"fifo", "missing", "."}) {
    CHECK(!open_in_root(own.get(), folder / name, LastLink::kFollowed));
  }
  CHECK(!open_in_root(own.get(), "/dev/zero"));
}

}  // namespace spanfold::proc::test
