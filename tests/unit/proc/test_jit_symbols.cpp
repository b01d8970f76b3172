// SPDX-License-Identifier: Apache-2.0
// Generated code through the whole symbolizer: which log is believed, and how frames look with and without one.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "fixture.h"
#include "jit_fixture.h"
#include "proc/symbolizer.h"

namespace spanfold::proc::test {
namespace {

constexpr std::size_t kCodeBytes = 8192;
constexpr useconds_t kOnceMore = 120'000;  // logs are read again after 100 ms

std::string name_of(const Frame& frame) { return frame.function == nullptr ? "" : *frame.function; }

Frame resolve_one(Symbolizer& symbolizer, const Seen& seen, std::uint64_t address) {
  std::vector<Frame> frames;
  symbolizer.resolve(seen.key, seen.image, {}, std::span(&address, 1), frames);
  REQUIRE(frames.size() == 1);
  return frames[0];
}

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%lx", value);
  return text;
}

// Executable memory of this process.
class Code {
 public:
  explicit Code(int fd = -1)
      : memory_(::mmap(nullptr, kCodeBytes, PROT_READ | PROT_EXEC, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED,
                       fd, 0)) {
    REQUIRE(memory_ != MAP_FAILED);
  }
  ~Code() { ::munmap(memory_, kCodeBytes); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  [[nodiscard]] std::uint64_t at(std::uint64_t offset) const {
    return reinterpret_cast<std::uint64_t>(memory_) + offset;
  }
  [[nodiscard]] std::string line(std::uint64_t offset, std::uint64_t bytes, const std::string& name) const {
    return hex(at(offset)) + " " + hex(bytes) + " " + name + "\n";
  }

 private:
  void* memory_;
};

// /tmp/perf-PID.map of this process; gone when the test ends.
class Map {
 public:
  explicit Map(const std::string& text = "") { write_text(path(), text); }
  ~Map() { ::unlink(path().c_str()); }
  Map(const Map&) = delete;
  Map& operator=(const Map&) = delete;
  static std::string path() { return "/tmp/perf-" + std::to_string(::getpid()) + ".map"; }
  static void append(const std::string& text) {
    std::ofstream file(path(), std::ios::app);
    file << text;
    REQUIRE(file.flush().good());
  }
};

void check_anonymous(const Frame& frame, std::uint64_t address) {
  CHECK(frame.function == nullptr);
  REQUIRE(frame.mapping != nullptr);
  CHECK(frame.mapping->filename == "[anon jit]");
  CHECK(frame.address == address);
}

}  // namespace

TEST_CASE("generated code: entries that overlap and repeat, and the name that was valid at the time") {
  const Code code;
  const Map map(code.line(0, 256, "A") + code.line(64, 256, "B"));
  Symbolizer symbolizer({});
  const Seen seen = look_at(::getpid());
  const auto name = [&](std::uint64_t offset) { return name_of(resolve_one(symbolizer, seen, code.at(offset))); };
  CHECK(name(0) == "A");
  CHECK(name(63) == "A");
  CHECK(name(64) == "B");
  CHECK(name(319) == "B");
  CHECK(name(320).empty());
  const Frame early = resolve_one(symbolizer, seen, code.at(8));
  Map::append(code.line(0, 32, "C"));
  ::usleep(kOnceMore);
  CHECK(name(8) == "C");
  CHECK(name(32) == "A");
  CHECK(name(64) == "B");
  CHECK(name_of(early) == "A");
  CHECK(early.mapping->filename == "[anon jit]");
  CHECK(early.address == code.at(8));
  CHECK(symbolizer.usage().jit_frames == 9);
  CHECK(symbolizer.usage().jit_frames_unnamed == 1);
}

TEST_CASE("generated code: frames get other names when the log says so, and keep theirs when it says nothing") {
  const Code code;
  Symbolizer symbolizer({});
  const Seen seen = look_at(::getpid());
  std::vector<Frame> frames = {resolve_one(symbolizer, seen, code.at(8)), resolve_one(symbolizer, seen, code.at(100)),
                               resolve_one(symbolizer, seen, reinterpret_cast<std::uint64_t>(&look_at))};
  std::uint64_t version = 0;
  CHECK(!symbolizer.rename(seen.key, version, frames));
  const Map map(code.line(0, 64, "JS:*A /a.js:1:1"));
  ::usleep(1'050'000);  // logs are looked for every second
  CHECK(symbolizer.rename(seen.key, version, frames));
  CHECK(name_of(frames[0]) == "A /a.js:1:1");
  CHECK(frames[0].type == FrameType::kV8js);
  CHECK(name_of(frames[1]).empty());
  CHECK(!symbolizer.rename(seen.key, version, frames));
  Map::append(code.line(0, 32, "C"));
  ::usleep(kOnceMore);
  CHECK(symbolizer.rename(seen.key, version, frames));
  CHECK(name_of(frames[0]) == "C");
  REQUIRE(::truncate(Map::path().c_str(), 0) == 0);
  ::usleep(kOnceMore);
  CHECK(!symbolizer.rename(seen.key, version, frames));
  CHECK(name_of(frames[0]) == "C");
  CHECK(name_of(frames[2]) == "spanfold::proc::test::look_at(int)");
  ProcessKey other = seen.key;
  other.exec_id = 9;
  CHECK(!symbolizer.rename(other, version, frames));
}

TEST_CASE("generated code: return addresses are looked up minus one") {
  const Code code;
  const Map map(code.line(0, 64, "JS:*caller /a.js:1:1") + code.line(64, 64, "py::next:/a.py"));
  Symbolizer symbolizer({});
  const Seen seen = look_at(::getpid());
  const std::vector<std::uint64_t> user = {code.at(64), code.at(64)};
  std::vector<Frame> frames;
  symbolizer.resolve(seen.key, seen.image, {}, user, frames);
  CHECK(name_of(frames[0]) == "next:/a.py");
  CHECK(frames[0].type == FrameType::kCpython);
  CHECK(name_of(frames[1]) == "caller /a.js:1:1");
  CHECK(frames[1].type == FrameType::kV8js);
}

TEST_CASE("generated code: without a log, or with one that is not to be believed, addresses") {
  const Code code;
  const std::string line = code.line(0, 256, "wrong");
  std::unique_ptr<Map> map;
  SUBCASE("none") {}
  SUBCASE("of somebody else") {
    if (::geteuid() != 0) return;
    map = std::make_unique<Map>(line);
    REQUIRE(::chown(Map::path().c_str(), 65534, 65534) == 0);
  }
  SUBCASE("a link") {
    const TemporaryFolder folder;
    write_text(folder / "map", line);
    map = std::make_unique<Map>();
    REQUIRE(::unlink(Map::path().c_str()) == 0);
    REQUIRE(::symlink((folder / "map").c_str(), Map::path().c_str()) == 0);
  }
  SUBCASE("a FIFO") {
    map = std::make_unique<Map>();
    REQUIRE(::unlink(Map::path().c_str()) == 0);
    REQUIRE(::mkfifo(Map::path().c_str(), 0600) == 0);
  }
  Symbolizer symbolizer({});
  const Seen seen = look_at(::getpid());
  check_anonymous(resolve_one(symbolizer, seen, code.at(8)), code.at(8));
  CHECK(symbolizer.usage().jit_frames_unnamed == 1);
}

TEST_CASE("generated code: a log that comes later is found") {
  const Code code;
  Symbolizer symbolizer({});
  const Seen seen = look_at(::getpid());
  check_anonymous(resolve_one(symbolizer, seen, code.at(8)), code.at(8));
  const Map map(code.line(0, 256, "late"));
  ::usleep(1'050'000);  // looked for every second
  CHECK(name_of(resolve_one(symbolizer, seen, code.at(8))) == "late");
}

TEST_CASE("generated code: in memory that has a name, but not in an ELF file there") {
  const Fd memory(::memfd_create("doublemapper", MFD_CLOEXEC));
  REQUIRE(::ftruncate(memory.get(), kCodeBytes) == 0);
  const Code code(memory.get());
  const Fd zero(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  const Code shared(zero.get());
  const Fd program(::memfd_create("program", MFD_CLOEXEC));
  std::ifstream self("/proc/self/exe", std::ios::binary);
  const std::string head{std::istreambuf_iterator<char>(self), {}};
  REQUIRE(::write(program.get(), head.data(), head.size()) > 0);
  const Code elf(program.get());
  const Map map(code.line(0, 256, "void [App] Sum()[Tier0]") + shared.line(0, 256, "php") + elf.line(0, 256, "no"));
  Symbolizer symbolizer({});
  const Seen seen = look_at(::getpid());
  CHECK(name_of(resolve_one(symbolizer, seen, code.at(8))) == "void [App] Sum()[Tier0]");
  CHECK(name_of(resolve_one(symbolizer, seen, shared.at(8))) == "php");
  check_anonymous(resolve_one(symbolizer, seen, code.at(4096)), code.at(4096));
  const Frame in_elf = resolve_one(symbolizer, seen, elf.at(8));
  CHECK(in_elf.function == nullptr);
  CHECK(in_elf.mapping->filename == "/memfd:program");
}

TEST_CASE("generated code: in a file that is no ELF file, by name or by offset in the file") {
  const TemporaryFolder folder;
  write_text(folder / "code.dll", "MZ" + std::string(kCodeBytes, '\0'));
  const Fd file(::open((folder / "code.dll").c_str(), O_RDONLY | O_CLOEXEC));
  const Code code(file.get());
  const Map map(code.line(0, 256, "instance bool [Lib] Contains(char)[PreJIT]"));
  Symbolizer symbolizer({});
  const Seen seen = look_at(::getpid());
  CHECK(name_of(resolve_one(symbolizer, seen, code.at(8))).starts_with("instance bool"));
  const Frame frame = resolve_one(symbolizer, seen, code.at(1000));
  CHECK(frame.mapping->filename == folder / "code.dll");
  CHECK(frame.address == 1000);
  CHECK(symbolizer.usage().jit_frames_unnamed == 0);
}

TEST_CASE("generated code: by a dump that the process maps") {
  const TemporaryFolder folder;
  const Code code;
  const std::string path = folder / "jit-1.dump";
  const auto pid = static_cast<std::uint32_t>(::getpid());
  bool own = true;
  SUBCASE("its own") {}
  SUBCASE("of its parent") { own = false; }
  write_text(path, dump_header(own ? pid : pid + 1) + dump_load(code.at(0), 256, "dumped"));
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const Code marker(file.get());
  const Map map(code.line(0, 512, "mapped"));
  Symbolizer symbolizer({});
  const Seen seen = look_at(::getpid());
  CHECK(name_of(resolve_one(symbolizer, seen, code.at(8))) == (own ? "dumped" : "mapped"));
  CHECK(name_of(resolve_one(symbolizer, seen, code.at(256))) == "mapped");
}

TEST_CASE("generated code: symbols none") {
  const Code code;
  const Map map(code.line(0, 256, "A"));
  Symbolizer symbolizer({.local_symbols = false});
  check_anonymous(resolve_one(symbolizer, look_at(::getpid()), code.at(8)), code.at(8));
}

// Says where its code lies, by a map that is named as it calls itself.
constexpr const char* kJit = R"(
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main() {
  void* code = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char path[64];
  snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
  FILE* map = fopen(path, "w");
  fprintf(map, "%lx 1000 inside\n", (unsigned long)code);
  fclose(map);
  printf("%lx\n", (unsigned long)code);
  fflush(stdout);
  for (;;) pause();
}
)";

TEST_CASE("generated code: in a pid and mount namespace of its own, beside a decoy on the host") {
  if (::geteuid() != 0) {
    MESSAGE("SKIPPED: namespaces need root");
    return;
  }
  const TemporaryFolder folder;
  write_text(folder / "jit.c", kJit);
  output_of("gcc -w -o " + (folder / "jit") + " " + (folder / "jit.c"));
  const std::string copy = "cp " + (folder / "jit") + " /mnt && mount -t tmpfs none /tmp && exec /mnt/jit";
  Child child({"/usr/bin/env", "unshare", "--pid", "--fork", "--kill-child", "--mount", "sh", "-c",
               "mount -t tmpfs none /mnt && " + copy});
  const std::uint64_t address = std::stoull(child.line(), nullptr, 16);
  const std::string children = "/proc/" + std::to_string(child.pid()) + "/task/" + std::to_string(child.pid());
  const pid_t inner = std::stoi(output_of("cat " + children + "/children"));
  const std::string decoy = "/tmp/perf-" + std::to_string(inner) + ".map";
  write_text(decoy, hex(address) + " 1000 decoy\n");
  Symbolizer symbolizer({});
  CHECK(name_of(resolve_one(symbolizer, look_at(inner), address + 8)) == "inside");
  ::unlink(decoy.c_str());
}

TEST_CASE("generated code: names of a process that is gone stay") {
  const TemporaryFolder folder;
  write_text(folder / "jit.c", kJit);
  output_of("gcc -w -o " + (folder / "jit") + " " + (folder / "jit.c"));
  Child child({folder / "jit"});
  const std::uint64_t address = std::stoull(child.line(), nullptr, 16);
  const std::string map = "/tmp/perf-" + std::to_string(child.pid()) + ".map";
  Symbolizer symbolizer({});
  const Seen seen = look_at(child.pid());
  symbolizer.notice(seen.key, seen.image, 0);
  child.end();
  ::unlink(map.c_str());
  CHECK(name_of(resolve_one(symbolizer, seen, address + 8)) == "inside");
}

TEST_CASE("generated code: CPython says what its trampolines are of") {
  const std::string version = "-c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null";
  std::string python;
  for (const char* name : {"python3", "python3.12", "python3.13", "python3.14"}) {
    if (::system((name + (" " + version)).c_str()) == 0) python = name;
  }
  if (python.empty()) {
    MESSAGE("SKIPPED: no python3 of version 3.12 or later is installed");
    return;
  }
  Child child({"/usr/bin/env", python, "-X", "perf", "-c",
               "import time\ndef hot(): pass\nhot()\nprint('up', flush=True)\ntime.sleep(60)"});
  const std::string map = "/tmp/perf-" + std::to_string(child.pid()) + ".map";
  const auto lines = lines_of("grep py::hot: " + map);
  REQUIRE(!lines.empty());
  Symbolizer symbolizer({});
  const Frame frame = resolve_one(symbolizer, look_at(child.pid()), std::stoull(lines[0], nullptr, 16) + 1);
  CHECK(name_of(frame) == "hot:<string>");
  CHECK(frame.type == FrameType::kCpython);
  child.end();
  ::unlink(map.c_str());
}

}  // namespace spanfold::proc::test
