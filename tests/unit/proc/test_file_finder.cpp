// SPDX-License-Identifier: Apache-2.0
// Files of processes that are gone: only the very one that was mapped is opened.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/clock.h"
#include "fixture.h"
#include "proc/file_finder.h"

namespace spanfold::proc::test {
namespace {

constexpr std::uint32_t kNobody = 4'000'000;  // above any pid

struct Finding {
  Interner interner;
  BinaryCache binaries{interner};
  FileFinder finder{binaries};

  std::shared_ptr<Binary> find(const LoggedMapping& mapping, std::uint32_t pid = kNobody) {
    return finder.find(mapping, std::span(&pid, 1));
  }
};

// A mapping of the file that stands at `path` now, by device and inode, mapped now.
LoggedMapping mapping_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  auto file = std::make_shared<LoggedFile>();
  file->path = path;
  file->device = status.st_dev;
  file->inode = status.st_ino;
  ::usleep(20'000);  // times of files are as coarse as the clock's tick
  return {.start = 0x400000, .end = 0x500000, .boottime_ns = boot_clock_ns(), .file = file};
}

LoggedMapping mapping_of(const std::string& path, const std::string& build_id) {
  LoggedMapping mapping = mapping_of(path);
  auto file = std::make_shared<LoggedFile>();
  file->path = path;
  for (std::size_t i = 0; i + 1 < build_id.size(); i += 2) {
    file->build_id += static_cast<char>(std::stoul(build_id.substr(i, 2), nullptr, 16));
  }
  mapping.file = file;
  return mapping;
}

std::string build(const TemporaryFolder& folder, const std::string& name, const std::string& id) {
  write_text(folder / "a.c", "int main(void) { return 0; }\n");
  std::string path = folder / name;
  output_of("gcc -Wl,--build-id=0x" + id + " -o " + path + " " + (folder / "a.c"));
  return path;
}

}  // namespace

TEST_CASE("by device and inode: the file that was there when it was mapped, unchanged") {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  write_text(path, "some program");
  const LoggedMapping mapping = mapping_of(path);
  Finding finding;
  SUBCASE("it stands there") {
    const auto binary = finding.find(mapping);
    REQUIRE(binary != nullptr);
    CHECK(finding.find(mapping) == binary);
    CHECK(finding.binaries.open_files() == 1);
    LoggedMapping earlier = mapping;
    earlier.boottime_ns -= 60'000'000'000;  // of what stood there before
    CHECK(finding.find(earlier) == nullptr);
  }
  SUBCASE("another one stands there") {
    write_text(folder / "other", "some program");
    std::filesystem::rename(folder / "other", path);
    CHECK(finding.find(mapping) == nullptr);
  }
  SUBCASE("it was written over since") {
    ::usleep(20'000);
    write_text(path, "another program");
    CHECK(finding.find(mapping) == nullptr);
  }
  SUBCASE("it is another one with the same number") {
    ::usleep(20'000);
    // Made again until the file system gives the number again, or does not.
    struct stat status {};
    for (int i = 0; i < 50 && (i == 0 || status.st_ino != mapping.file->inode); ++i) {
      ::unlink(path.c_str());
      write_text(path, "some program");
      REQUIRE(::stat(path.c_str(), &status) == 0);
    }
    const timespec times[2] = {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 0}};
    REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
    CHECK(finding.find(mapping) == nullptr);
  }
  SUBCASE("a link leads to it") {
    std::filesystem::rename(path, folder / "moved");
    std::filesystem::create_symlink(folder / "moved", path);
    CHECK(finding.find(mapping) == nullptr);
  }
  SUBCASE("a folder stands there, or nothing") {
    std::filesystem::remove(path);
    CHECK(finding.find(mapping) == nullptr);
    std::filesystem::create_directory(path);
    mapping.file->missed_ns = 0;
    CHECK(finding.find(mapping) == nullptr);
  }
}

TEST_CASE("what was not found is looked for again after a while only") {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  write_text(path, "some program");
  const LoggedMapping mapping = mapping_of(path);
  std::filesystem::rename(path, folder / "away");
  Finding finding;
  CHECK(finding.find(mapping) == nullptr);
  std::filesystem::rename(folder / "away", path);
  CHECK(finding.find(mapping) == nullptr);
  mapping.file->missed_ns -= 2'000'000'000;
  CHECK(finding.find(mapping) != nullptr);
}

TEST_CASE("by build id: whatever file has it") {
  if (!have_program("gcc")) return;
  const TemporaryFolder folder;
  const std::string id = "00112233445566778899aabbccddeeff00112233";
  const std::string path = build(folder, "program", id);
  Finding finding;
  const LoggedMapping mapping = mapping_of(path, id);
  const auto copy_over = [&] {
    std::filesystem::copy_file(path, folder / "copy");
    std::filesystem::rename(folder / "copy", path);
  };
  SUBCASE("made anew, it is the same") {
    copy_over();
    CHECK(finding.find(mapping) != nullptr);
  }
  SUBCASE("another build is not, nor what has no id") {
    const std::string other = build(folder, "other", "ff112233445566778899aabbccddeeff00112233");
    std::filesystem::rename(other, path);
    CHECK(finding.find(mapping) == nullptr);
    write_text(path, "no program");
    mapping.file->missed_ns = 0;
    CHECK(finding.find(mapping) == nullptr);
  }
  SUBCASE("a file of that id that is open already") {
    const std::string twin = folder / "twin";
    std::filesystem::rename(path, twin);
    const auto known = finding.find(mapping_of(twin, id));
    REQUIRE(known != nullptr);
    CHECK(finding.find(mapping) == known);
  }
}

TEST_CASE("below the root of the process, if it has another") {
  if (::geteuid() != 0) {
    MESSAGE("SKIPPED: chroot needs root");
    return;
  }
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "root");
  write_text(folder / "root/program", "some program");
  LoggedMapping mapping = mapping_of(folder / "root/program");
  auto file = std::make_shared<LoggedFile>(*mapping.file);
  file->path = "/program";
  mapping.file = file;
  const Child child(
      {"/usr/bin/env", "python3", "-c",
       "import os, sys, time; os.chroot('" + (folder / "root") + "'); print('there', flush=True); time.sleep(60)"});
  REQUIRE(child.line() == "there");
  Finding finding;
  CHECK(finding.find(mapping) == nullptr);
  file->missed_ns = 0;
  CHECK(finding.find(mapping, static_cast<std::uint32_t>(child.pid())) != nullptr);
}

TEST_CASE("the vDSO is one for all processes of 64 bits") {
  Finding finding;
  auto file = std::make_shared<LoggedFile>();
  file->path = "[vdso]";
  LoggedMapping mapping{.start = 0x7fff00000000, .file = file};
  for (const std::string& line : lines_of("grep vdso /proc/self/maps")) {
    mapping.end =
        mapping.start + std::stoull(line.substr(line.find('-') + 1), nullptr, 16) - std::stoull(line, nullptr, 16);
  }
  REQUIRE(mapping.end > mapping.start);
  CHECK(finding.find(mapping) != nullptr);
  file->binary.reset();
  mapping.end += 4096;
  CHECK(finding.find(mapping) == nullptr);
  file->missed_ns = 0;
  mapping.end -= 4096;
  mapping.start -= 0x7fff00000000 - 0xf7f00000;
  mapping.end -= 0x7fff00000000 - 0xf7f00000;
  CHECK(finding.find(mapping) == nullptr);
}

}  // namespace spanfold::proc::test
