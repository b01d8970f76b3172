// SPDX-License-Identifier: Apache-2.0
// Names of processes by what the kernel told of them, through the whole symbolizer.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "fixture.h"
#include "proc/procfs.h"
#include "proc/read_maps.h"
#include "proc/symbolizer.h"

namespace spanfold::proc::test {
namespace {

std::string name_of(const Frame& frame) { return frame.function == nullptr ? "" : *frame.function; }

Frame resolve_one(Symbolizer& symbolizer, const Seen& seen, std::uint64_t address) {
  std::vector<Frame> frames;
  symbolizer.resolve(seen.key, seen.image, {}, std::span(&address, 1), frames);
  REQUIRE(frames.size() == 1);
  return frames[0];
}

constexpr const char* kProgram = R"(
#include <cstdio>
#include <string>
#include <unistd.h>
__attribute__((noinline)) int WORK(int value) { asm volatile(""); return value + 1; }
int main() {
  std::printf("%lx\n", reinterpret_cast<unsigned long>(&WORK));
  std::fflush(stdout);
  for (;;) pause();
}
)";

std::string build(const TemporaryFolder& folder, const std::string& name) {
  write_text(folder / "program.cpp", kProgram);
  std::string binary = folder / name;
  output_of("g++ -O1 -w -no-pie -DWORK=" + name + " -o " + binary + " " + (folder / "program.cpp") + " 2>&1");
  return binary;
}

// Where stat does not say the device that the kernel tells (btrfs, overlayfs), files are found by build id only.
bool tells_files(const TemporaryFolder& folder) {
  const std::string path = folder / "told";
  write_text(path, std::string(4096, 'm'));
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  void* const memory = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd.get(), 0);
  struct stat status {};
  REQUIRE(::fstat(fd.get(), &status) == 0);
  bool same = false;
  const Fd self = open_process_folder(static_cast<std::uint32_t>(::getpid()));
  const auto ranges = read_maps(self.get());
  REQUIRE(ranges.has_value());
  for (const MapRange& range : *ranges) {
    same = same || (range.name == path && range.device == status.st_dev && range.inode == status.st_ino);
  }
  ::munmap(memory, 4096);
  if (!same) MESSAGE("SKIPPED: this file system does not tell files as the kernel does");
  return same;
}

struct Program {
  explicit Program(const std::string& binary) : child({binary}), seen(look_at(child.pid())) {
    work = std::stoull(child.line(), nullptr, 16);
    const Fd folder = open_process_folder(seen.key.pid);
    ranges = *read_maps(folder.get());
    ::usleep(20'000);  // /proc knows the start to within a tick
    seen_ns = boot_clock_ns();
  }
  // As the kernel does; mappings by device and inode.
  void tell(TaskSink& tasks) const {
    tasks.on_fork(seen.key.pid, seen.key.pid, 1, seen.key.start_boottime_ns + 1000);
    tell_exec(tasks, seen.key.pid, seen.key.start_boottime_ns + 2000);
  }
  void tell_exec(TaskSink& tasks, std::uint32_t pid, std::uint64_t boottime_ns) const {
    tasks.on_exec(pid, boottime_ns);
    for (const MapRange& range : ranges) tell_mapping(tasks, pid, boottime_ns + 1, range);
  }
  static void tell_mapping(TaskSink& tasks, std::uint32_t pid, std::uint64_t boottime_ns, const MapRange& range) {
    tasks.on_mapping({.pid = pid,
                      .boottime_ns = boottime_ns,
                      .start = range.start,
                      .end = range.end,
                      .file_offset = range.file_offset,
                      .path = range.name,
                      .device = range.device,
                      .inode = range.inode});
  }

  Child child;
  Seen seen;
  std::uint64_t work = 0;
  std::uint64_t seen_ns = 0;  // it has run by then
  std::vector<MapRange> ranges;
};

}  // namespace

TEST_CASE("a process that is gone has its names, and what it was") {
  const TemporaryFolder folder;
  if (!tells_files(folder)) return;
  const std::string binary = build(folder, "first");
  ::usleep(20'000);
  Program program(binary);
  Symbolizer symbolizer({});
  program.child.end();
  CHECK(name_of(resolve_one(symbolizer, program.seen, program.work)).empty());
  program.tell(symbolizer.tasks());
  symbolizer.notice(program.seen.key, program.seen.image, program.seen_ns);
  const Frame frame = resolve_one(symbolizer, program.seen, program.work);
  CHECK(name_of(frame) == "first(int)");
  REQUIRE(frame.mapping != nullptr);
  CHECK(frame.mapping->filename == binary);
  CHECK(symbolizer.attributes(program.seen.key) ==
        ProcessAttributes{{"process.executable.name", "first"}, {"process.executable.path", binary}});
}

TEST_CASE("programs that follow each other at one address in one process") {
  const TemporaryFolder folder;
  if (!tells_files(folder)) return;
  const std::string first = build(folder, "first");
  const std::string second = build(folder, "other");  // as long a name: the same addresses
  ::usleep(20'000);
  Program before(first);
  ::usleep(20'000);  // so that, by /proc, this one begins behind the last look at the first
  Program behind(second);
  REQUIRE(before.work == behind.work);
  before.child.end();
  behind.child.end();
  behind.seen.key.pid = before.seen.key.pid;
  behind.seen.image = before.seen.image;
  Symbolizer symbolizer({});
  before.tell(symbolizer.tasks());
  SUBCASE("by exec") {
    behind.seen.key = before.seen.key;
    ++behind.seen.key.exec_id;
    behind.tell_exec(symbolizer.tasks(), before.seen.key.pid, boot_clock_ns());
    behind.seen_ns = boot_clock_ns();
  }
  SUBCASE("by the pid's coming again") { behind.tell(symbolizer.tasks()); }
  symbolizer.notice(behind.seen.key, behind.seen.image, behind.seen_ns);
  symbolizer.notice(before.seen.key, before.seen.image, before.seen_ns);
  CHECK(name_of(resolve_one(symbolizer, before.seen, before.work)) == "first(int)");
  CHECK(name_of(resolve_one(symbolizer, behind.seen, behind.work)) == "other(int)");
}

TEST_CASE("a file that cannot be found leaves file offsets, and /proc helps while it can") {
  const TemporaryFolder folder;
  if (!tells_files(folder)) return;
  const std::string binary = build(folder, "first");
  Program program(binary);
  REQUIRE(::unlink(binary.c_str()) == 0);
  Symbolizer symbolizer({});
  program.tell(symbolizer.tasks());
  SUBCASE("gone") { program.child.end(); }
  SUBCASE("there") {}
  const bool there = program.child.pid() > 0;
  symbolizer.notice(program.seen.key, program.seen.image, program.seen_ns);
  const Frame frame = resolve_one(symbolizer, program.seen, program.work);
  REQUIRE(frame.mapping != nullptr);
  CHECK(frame.mapping->filename == binary);
  CHECK(name_of(frame) == (there && ::geteuid() == 0 ? "first(int)" : ""));
  if (!there) CHECK(frame.address < 0x10000);
}

TEST_CASE("a fork of who was there before has its parent's names, also when it is gone") {
  const TemporaryFolder folder;
  if (!tells_files(folder)) return;
  const std::string binary = build(folder, "first");
  Program parent(binary);
  Seen fork{.key = {.start_boottime_ns = boot_clock_ns(), .pid = 4'000'000}, .image = parent.seen.image};
  Symbolizer symbolizer({});
  symbolizer.tasks().on_fork(fork.key.pid, fork.key.pid, parent.seen.key.pid, boot_clock_ns());
  const std::uint64_t seen_ns = boot_clock_ns();
  SUBCASE("the same image") {
    symbolizer.notice(fork.key, fork.image, seen_ns);
    CHECK(name_of(resolve_one(symbolizer, fork, parent.work)) == "first(int)");
  }
  SUBCASE("another image") {
    fork.image.start_stack += 16;
    symbolizer.notice(fork.key, fork.image, seen_ns);
    CHECK(resolve_one(symbolizer, fork, parent.work).mapping == nullptr);
  }
}

TEST_CASE("what is mapped later is told, and takes the place of what was there") {
  const TemporaryFolder folder;
  if (!tells_files(folder)) return;
  const std::string first = build(folder, "first");
  const std::string second = build(folder, "other");
  ::usleep(20'000);
  Program before(first);
  const Program behind(second);
  before.child.end();
  Symbolizer symbolizer({});
  before.tell(symbolizer.tasks());
  symbolizer.notice(before.seen.key, before.seen.image, before.seen_ns);
  CHECK(name_of(resolve_one(symbolizer, before.seen, before.work)) == "first(int)");
  const MapRange& code = behind.ranges.front();
  Program::tell_mapping(symbolizer.tasks(), before.seen.key.pid, boot_clock_ns(), code);
  symbolizer.notice(before.seen.key, before.seen.image, boot_clock_ns());
  CHECK(name_of(resolve_one(symbolizer, before.seen, before.work)) == "other(int)");
}

}  // namespace spanfold::proc::test
