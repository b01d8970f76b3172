// SPDX-License-Identifier: Apache-2.0
// Opening what a process has mapped: each way alone, and what may stand in the file's place.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "base/file.h"
#include "fixture.h"
#include "proc/open_mapped.h"
#include "proc/procfs.h"

namespace spanfold::proc {
namespace {

// A file that this process has mapped executable, as /proc/self/maps shows it.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) : path_(path) {
    test::write_text(path, std::string(4096, 'm'));
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    memory_ = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd.get(), 0);
    REQUIRE(memory_ != MAP_FAILED);
  }
  ~MappedFile() { ::munmap(memory_, 4096); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] MapRange range() const {
    MapsParser parser;
    parser.feed(*read_file("/proc/self/maps", 1 << 20));
    for (MapRange& range : parser.finish()) {
      if (range.start == reinterpret_cast<std::uint64_t>(memory_)) return std::move(range);
    }
    FAIL("not mapped");
    return {};
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  void* memory_ = nullptr;
};

Fd own_folder() { return open_process_folder(static_cast<std::uint32_t>(::getpid())); }

}  // namespace

TEST_CASE("open: by map_files and by the root of the process") {
  const test::TemporaryFolder folder;
  const MappedFile mapped(folder / "library");
  const Fd self = own_folder();
  if (::geteuid() == 0) {
    const auto file = open_by(Way::kMapFiles, self.get(), mapped.range());
    REQUIRE(file.has_value());
    CHECK(file->exact);
    CHECK((::fcntl(file->fd.get(), F_GETFL) & O_NONBLOCK) != 0);
    CHECK((::fcntl(file->fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(open_by(Way::kRoot, self.get(), mapped.range()).has_value());
  CHECK(!open_by(Way::kExe, self.get(), mapped.range()).has_value());
}

TEST_CASE("open: the executable, by its link") {
  MapsParser parser;
  parser.feed(*read_file("/proc/self/maps", 1 << 20));
  const auto here = reinterpret_cast<std::uint64_t>(&own_folder);
  for (const MapRange& range : parser.finish()) {
    if (here < range.start || here >= range.end) continue;
    CHECK(open_by(Way::kExe, own_folder().get(), range).has_value());
  }
}

TEST_CASE("open: nothing that took the file's place is opened") {
  const test::TemporaryFolder folder;
  const MappedFile mapped(folder / "library");
  const MapRange range = mapped.range();
  REQUIRE(::unlink(mapped.path().c_str()) == 0);
  const char* path = mapped.path().c_str();
  SUBCASE("nothing") {}
  SUBCASE("a FIFO") { REQUIRE(::mkfifo(path, 0600) == 0); }
  SUBCASE("a folder") { REQUIRE(::mkdir(path, 0700) == 0); }
  SUBCASE("an empty file") { test::write_text(path, ""); }
  SUBCASE("another file") { test::write_text(path, std::string(4096, 'm')); }
  SUBCASE("a link to a secret") { REQUIRE(::symlink("/etc/shadow", path) == 0); }
  SUBCASE("a link to a terminal") { REQUIRE(::symlink("/dev/tty", path) == 0); }
  SUBCASE("a link that leads nowhere but to itself") { REQUIRE(::symlink(path, path) == 0); }
  const Fd self = own_folder();
  CHECK(!open_by(Way::kRoot, self.get(), range).has_value());
  CHECK(!open_by(Way::kExe, self.get(), range).has_value());
  if (::geteuid() != 0) return;
  // The mapping itself still leads to the file.
  MapRange deleted = range;
  deleted.name += " (deleted)";
  const auto file = open_mapped(self.get(), deleted);
  REQUIRE(file.has_value());
  CHECK(file->status.st_nlink == 0);
  CHECK(file->status.st_ino == range.inode);
}

TEST_CASE("open: a link on the way is not followed, even to the right file") {
  const test::TemporaryFolder folder;
  REQUIRE(::mkdir((folder / "real").c_str(), 0700) == 0);
  const MappedFile mapped(folder / "real/library");
  REQUIRE(::symlink("real", (folder / "link").c_str()) == 0);
  MapRange range = mapped.range();
  range.name = folder / "link/library";
  CHECK(!open_by(Way::kRoot, own_folder().get(), range).has_value());
  range.name = folder / "real/../real/library";
  // RESOLVE_IN_ROOT keeps ".." inside the root, the walk for older kernels refuses it: either is safe.
  (void)open_by(Way::kRoot, own_folder().get(), range);
}

TEST_CASE("open: a mapped device is looked at, not opened") {
  void* memory = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  MapsParser parser;
  parser.feed(*read_file("/proc/self/maps", 1 << 20));
  for (const MapRange& range : parser.finish()) {
    if (range.start != reinterpret_cast<std::uint64_t>(memory)) continue;
    CHECK(range.name == "/dev/zero (deleted)");
    const auto file = open_mapped(own_folder().get(), range);  // shmem behind it, or nothing: never /dev/zero
    if (file) CHECK(S_ISREG(file->status.st_mode));
  }
  ::munmap(memory, 4096);
}

}  // namespace spanfold::proc
