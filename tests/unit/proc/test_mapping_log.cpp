// SPDX-License-Identifier: Apache-2.0
// Who had mapped what, when: forks, execs, pids that come again, losses, and what is dropped.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "proc/mapping_log.h"

namespace spanfold::proc {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::uint64_t kCode = 0x400000;

// The image of a program whose code lies at `start`.
ImageTag image_of(std::uint64_t start, std::uint64_t bytes = 0x1f00) {
  return {.start_code = start + 0x40, .end_code = start + bytes, .start_stack = 0x7ffc0000};
}

void map(MappingLog& log, std::uint32_t pid, std::uint64_t time_ns, std::uint64_t start, std::uint64_t bytes,
         std::string_view path) {
  log.on_mapping({.pid = pid, .boottime_ns = time_ns, .start = start, .end = start + bytes, .path = path, .inode = 1});
}

// As the kernel tells of an exec.
void exec(MappingLog& log, std::uint32_t pid, std::uint64_t time_ns, std::string_view path, std::uint64_t at = kCode) {
  log.on_exec(pid, time_ns);
  map(log, pid, time_ns + 1, at, 0x2000, path);
  map(log, pid, time_ns + 2, 0x7f0000000000, 0x1000, "/lib/ld.so");
}

const LoggedImage* look_up(const MappingLog& log, std::uint32_t pid, std::uint64_t start_ns, std::uint64_t seen_ns,
                           const ImageTag& image = image_of(kCode)) {
  return log.find({.start_boottime_ns = start_ns, .pid = pid}, image, seen_ns).image;
}

std::string program_of(const LoggedImage* image) {
  return image == nullptr || !image->program ? "" : image->program->path;
}

std::string text_of(const LoggedImage* image) {
  std::string text;
  if (image == nullptr) return "none";
  for (const LoggedMapping& mapping : image->mappings->ranges()) {
    text += mapping.file->path + " " + std::to_string(mapping.start) + "-" + std::to_string(mapping.end) + "+" +
            std::to_string(mapping.file_offset) + " ";
  }
  return text;
}

}  // namespace

TEST_CASE("a process that was forked and executed something") {
  MappingLog log;
  log.on_fork(20, 20, 10, 1000);
  exec(log, 20, 2000, "/bin/a");
  CHECK(program_of(look_up(log, 20, 990, 3000)) == "/bin/a");
  CHECK(look_up(log, 20, 990, 3000)->mappings->ranges().size() == 2);
  CHECK(look_up(log, 21, 990, 3000) == nullptr);
  CHECK(look_up(log, 20, 990, 500) == nullptr);                            // before it was
  CHECK(look_up(log, 20, 1001, 3000) == nullptr);                          // a later one
  CHECK(look_up(log, 20, 990, 3000, image_of(0x500000)) == nullptr);       // code elsewhere
  CHECK(look_up(log, 20, 990, 3000, image_of(kCode, 0x2001)) == nullptr);  // code that is longer
  CHECK(look_up(log, 20, 990, 3000, ImageTag{}) == nullptr);
  log.on_exit(20, 20, 4000);
  CHECK(program_of(look_up(log, 20, 990, 3500)) == "/bin/a");
  CHECK(look_up(log, 20, 990, 4500) == nullptr);
}

TEST_CASE("programs that follow each other at the same addresses are told by time") {
  MappingLog log;
  exec(log, 20, 2000, "/bin/a");  // it began before anybody listened
  exec(log, 20, 3000, "/bin/b");
  exec(log, 20, 4000, "/bin/c");
  CHECK(program_of(look_up(log, 20, 10, 2900)) == "/bin/a");
  CHECK(program_of(look_up(log, 20, 10, 3900)) == "/bin/b");
  CHECK(program_of(look_up(log, 20, 10, 9000)) == "/bin/c");
  CHECK(look_up(log, 20, 2001, 2900) == nullptr);
}

TEST_CASE("a pid that comes again is another process") {
  MappingLog log;
  for (std::uint64_t begin_ns = 1000; begin_ns < 5000; begin_ns += 1000) {
    log.on_fork(20, 20, 10, begin_ns);
    exec(log, 20, begin_ns + 100, "/bin/" + std::to_string(begin_ns));
    if (begin_ns != 2000) log.on_exit(20, 20, begin_ns + 900);  // one exit was not told
  }
  for (std::uint64_t begin_ns = 1000; begin_ns < 5000; begin_ns += 1000) {
    CHECK(program_of(look_up(log, 20, begin_ns - 1, begin_ns + 500)) == "/bin/" + std::to_string(begin_ns));
    CHECK(look_up(log, 20, begin_ns - 1, begin_ns + 1500) == nullptr);
  }
  log.on_fork(30, 30, 10, 5 * kSecondNs);
  exec(log, 30, 5 * kSecondNs + 100, "/bin/a");
  CHECK(look_up(log, 30, kSecondNs, 6 * kSecondNs) == nullptr);  // that one's fork was long before
}

TEST_CASE("a fork has what its parent had, until one of them changes it") {
  MappingLog log;
  exec(log, 10, 1000, "/bin/a");
  log.on_fork(20, 20, 10, 2000);
  map(log, 20, 3000, 0x600000, 0x1000, "/lib/child");
  map(log, 10, 3000, 0x700000, 0x1000, "/lib/parent");
  log.on_fork(30, 30, 20, 4000);
  exec(log, 10, 5000, "/bin/b");
  CHECK(text_of(look_up(log, 20, 1999, 6000)).find("/lib/child") != std::string::npos);
  CHECK(text_of(look_up(log, 20, 1999, 6000)).find("/lib/parent") == std::string::npos);
  CHECK(text_of(look_up(log, 30, 3999, 6000)) == text_of(look_up(log, 20, 1999, 6000)));
  CHECK(program_of(look_up(log, 10, 10, 6000)) == "/bin/b");
  CHECK(text_of(look_up(log, 10, 10, 4500)).find("/lib/parent") != std::string::npos);
  CHECK(log.ancestors(30, 4500) == std::vector<std::uint32_t>{20, 10});
}

TEST_CASE("a fork of who was there before is as its parent, while both have changed nothing") {
  MappingLog log;
  const ImageTag image = image_of(kCode);
  const ProcessKey child{.start_boottime_ns = 1999, .pid = 20};
  const ProcessKey grandchild{.start_boottime_ns = 2999, .pid = 30};
  log.on_fork(20, 20, 10, 2000);
  log.on_fork(30, 30, 20, 3000);
  CHECK(log.find(child, image, 4000).same_as == 10);
  CHECK(log.find(grandchild, image, 4000).same_as == 20);
  log.on_exit(20, 20, 3500);
  CHECK(log.find(grandchild, image, 4000).same_as == 10);

  SUBCASE("what /proc says of the parent counts for all") {
    const std::vector<MapRange> ranges = {{.start = kCode, .end = kCode + 0x2000, .inode = 5, .name = "/bin/a"}};
    REQUIRE(log.adopt(10, image, 500, ranges) != nullptr);
    CHECK(log.adopt(10, image, 500, ranges) == nullptr);
    CHECK(text_of(log.find(child, image, 3400).image).starts_with("/bin/a "));
    CHECK(text_of(log.find(grandchild, image, 4000).image).starts_with("/bin/a "));
    CHECK(log.find(child, image_of(0x500000), 3400).image == nullptr);
    log.on_fork(40, 40, 10, 5000);
    CHECK(text_of(look_up(log, 40, 4999, 6000, image)).starts_with("/bin/a "));
  }
  SUBCASE("the parent maps something") {
    map(log, 10, 3600, 0x600000, 0x1000, "/lib/new");
    CHECK(log.find(grandchild, image, 4000).same_as == 0);
    log.on_fork(40, 40, 10, 5000);
    CHECK(log.find({.start_boottime_ns = 4999, .pid = 40}, image, 6000).same_as == 10);
  }
  SUBCASE("the child maps something") {
    map(log, 30, 3600, 0x600000, 0x1000, "/lib/new");
    CHECK(log.find(grandchild, image, 4000).same_as == 0);
  }
  SUBCASE("the parent executes something") {
    exec(log, 10, 3600, "/bin/b");
    CHECK(log.find(grandchild, image, 4000).same_as == 0);
  }
  SUBCASE("the parent ends") {
    log.on_exit(10, 10, 3600);
    CHECK(log.find(grandchild, image, 4000).same_as == 0);
  }
}

TEST_CASE("a process ends with its last thread") {
  MappingLog log;
  log.on_fork(20, 20, 10, 1000);
  exec(log, 20, 1100, "/bin/a");
  log.on_fork(20, 21, 20, 1200);
  log.on_exit(20, 20, 2000);
  CHECK(look_up(log, 20, 999, 3000) != nullptr);
  SUBCASE("which ends") { log.on_exit(20, 21, 4000); }
  SUBCASE("which executes something and ends") {
    exec(log, 20, 3500, "/bin/b");
    log.on_exit(20, 20, 4000);
  }
  CHECK(look_up(log, 20, 999, 3000) != nullptr);
  CHECK(look_up(log, 20, 999, 5000) == nullptr);
}

TEST_CASE("mappings end where later ones begin") {
  struct Range {
    std::uint64_t start, end;
  };
  const auto after = [](const std::vector<Range>& ranges) {
    MappingLog log;
    log.on_exec(20, 1000);
    char name = 'a';
    for (const Range& range : ranges) {
      map(log, 20, 2000, range.start, range.end - range.start, std::string("/") + name++);
    }
    return text_of(&*log.find({.pid = 20}, {.start_code = ranges[0].start, .end_code = ranges[0].end}, 3000).image);
  };
  CHECK(after({{100, 200}, {300, 400}, {200, 300}}) == "/a 100-200+0 /c 200-300+0 /b 300-400+0 ");
  CHECK(after({{100, 400}, {200, 300}}) == "/a 100-200+0 /b 200-300+0 /a 300-400+200 ");
  CHECK(after({{100, 400}, {100, 200}}) == "/b 100-200+0 /a 200-400+100 ");
  CHECK(after({{100, 400}, {300, 400}}) == "/a 100-300+0 /b 300-400+0 ");
  CHECK(after({{100, 200}, {150, 250}}) == "/a 100-150+0 /b 150-250+0 ");
  CHECK(after({{100, 200}, {300, 400}, {150, 350}}) == "/a 100-150+0 /c 150-350+0 /b 350-400+50 ");
  CHECK(after({{100, 200}, {100, 200}}) == "/b 100-200+0 ");
  CHECK(after({{100, 200}, {300, 400}, {500, 600}, {50, 550}}) == "/d 50-550+0 /c 550-600+50 ");
}

TEST_CASE("after a loss nobody who lived then is believed") {
  MappingLog log;
  exec(log, 10, 1000, "/bin/a");
  exec(log, 20, 1000, "/bin/a");
  log.on_exit(20, 20, 1500);
  exec(log, 30, 1600, "/bin/a");
  log.on_exit(30, 30, 2500);
  log.on_lost(2000, 3000);
  CHECK(log.losses() == 1);
  CHECK(look_up(log, 10, 10, 1900) == nullptr);
  CHECK(look_up(log, 20, 10, 1400) != nullptr);
  CHECK(look_up(log, 30, 10, 1900) == nullptr);
  map(log, 10, 3500, 0x600000, 0x1000, "/lib/new");
  CHECK(look_up(log, 10, 10, 4000) == nullptr);
  exec(log, 10, 5000, "/bin/b");
  CHECK(program_of(look_up(log, 10, 10, 6000)) == "/bin/b");
}

TEST_CASE("what ended is dropped after the call that follows, and a second") {
  MappingLog log;
  exec(log, 10, 1000, "/bin/a");
  exec(log, 20, 1000, "/bin/a");
  exec(log, 10, 2000, "/bin/b");
  log.on_exit(20, 20, 2000);
  log.forget_gone(3000);
  log.forget_gone(4000);
  CHECK(log.processes() == 2);
  log.forget_gone(3 * kSecondNs);  // nobody has asked about what came since 4000
  CHECK(log.processes() == 1);
  CHECK(log.mappings() == 2);
  CHECK(look_up(log, 10, 10, 1900, image_of(kCode)) == look_up(log, 10, 10, 2900, image_of(kCode)));
}

TEST_CASE("memory is bounded") {
  MappingLog log({.processes = 64, .mappings = 1000});
  for (std::uint32_t pid = 1; pid < 1000; ++pid) exec(log, pid, pid * 1000, "/bin/a");
  CHECK(log.processes() <= 64);
  CHECK(log.crowded_out() > 900);
  CHECK(program_of(look_up(log, 999, 10, 2'000'000)) == "/bin/a");
  CHECK(look_up(log, 1, 10, 2'000'000) == nullptr);
  // One that maps without end is known no more.
  for (std::uint64_t i = 0; i < 5000; ++i) map(log, 999, 3'000'000, 0x10000000 + i * 0x2000, 0x1000, "//anon");
  CHECK(look_up(log, 999, 10, 4'000'000) == nullptr);
  CHECK(log.mappings() <= 1000);
  // And so is one that executes without end, but for its last.
  for (std::uint64_t i = 0; i < 100; ++i) exec(log, 998, 5'000'000 + i * 1000, "/bin/" + std::to_string(i));
  CHECK(program_of(look_up(log, 998, 10, 6'000'000)) == "/bin/99");
  CHECK(log.mappings() <= 1000);
}

TEST_CASE("names of files are kept once, and as long as somebody maps them") {
  MappingLog log;
  for (std::uint64_t round = 1; round < 50; ++round) {
    for (std::uint32_t pid = 1; pid < 100; ++pid) {
      exec(log, pid, round * 10 * kSecondNs, "/bin/a" + std::to_string(round * 1000 + pid));
      log.on_exit(pid, pid, round * 10 * kSecondNs + 100);
    }
    CHECK(log.files() >= 100);
    CHECK(log.files() < 400);
    log.forget_gone(round * 10 * kSecondNs + 3 * kSecondNs);
    log.forget_gone(round * 10 * kSecondNs + 6 * kSecondNs);
    CHECK(log.processes() == 0);
    CHECK(log.mappings() == 0);
  }
}

}  // namespace spanfold::proc
