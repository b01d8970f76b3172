// SPDX-License-Identifier: Apache-2.0
// Records about processes: each kind in words, and none that is shorter than its kind.
#include <doctest/doctest.h>
#include <sys/sysmacros.h>

#include <random>

#include "bpf/task_records.h"
#include "unit/bpf/task_bytes.h"

namespace spanfold::bpf::test {
namespace {

using Texts = std::vector<std::string>;

Texts said(const Bytes& record, bool good = true) {
  Lines lines;
  CHECK(dispatch_record(record, 7, lines) == good);
  return lines.lines;
}

}  // namespace

TEST_CASE("each kind of record") {
  CHECK(said(fork_record(PERF_RECORD_FORK, 20, 21, 20, 100)) == Texts{"100 fork 20 21 by 20"});
  CHECK(said(fork_record(PERF_RECORD_EXIT, 20, 21, 20, 100)) == Texts{"100 exit 20 21"});
  CHECK(said(comm_record(20, true, "sh", 100)) == Texts{"100 exec 20"});
  CHECK(said(comm_record(20, false, "renamed", 100)).empty());
  CHECK(said(RecordWriter(PERF_RECORD_LOST).add(std::uint64_t{1}).add(std::uint64_t{5}).at(100)) ==
        Texts{"100 lost since 7"});
  CHECK(said(RecordWriter(PERF_RECORD_THROTTLE).add(std::uint64_t{1}).at(100)).empty());
  CHECK(said(mapping_record(20, 0x1000, 0x1000, "/bin/sh", 100)) == Texts{"100 map 20 /bin/sh"});
  CHECK(said(mapping_record(20, 0x1000, 0x1000, "/bin/sh", 100, PROT_READ)).empty());
}

TEST_CASE("tasks that have no pid here are passed over") {
  for (const std::uint32_t pid : {std::uint32_t{0}, ~std::uint32_t{0}}) {
    CHECK(said(fork_record(PERF_RECORD_FORK, pid, 21, 20, 100)).empty());
    CHECK(said(fork_record(PERF_RECORD_EXIT, pid, 21, 20, 100)).empty());
    CHECK(said(comm_record(pid, true, "sh", 100)).empty());
    CHECK(said(mapping_record(pid, 0x1000, 0x1000, "/bin/sh", 100)).empty());
  }
}

TEST_CASE("a mapping tells its file by device and inode, or by build id") {
  Lines lines;
  CHECK(dispatch_record(mapping_record(20, 0x1000, 0x3000, "/bin/sh", 100), 0, lines));
  CHECK(lines.last.start == 0x1000);
  CHECK(lines.last.end == 0x4000);
  CHECK(lines.last.file_offset == 0x2000);
  CHECK(lines.last.device == makedev(8, 3));
  CHECK(lines.last.inode == 4711);
  CHECK(lines.build_id.empty());

  for (const std::uint8_t said_bytes : std::vector<std::uint8_t>{20, 16, 255}) {
    RecordWriter writer = mapping_head(20, 0x1000, 0x3000, PERF_RECORD_MISC_USER | PERF_RECORD_MISC_MMAP_BUILD_ID);
    writer.add(said_bytes).add(std::uint8_t{0}).add(std::uint16_t{0});
    for (std::uint8_t i = 0; i < 20; ++i) writer.add(i);
    writer.add(std::uint32_t{PROT_EXEC}).add(std::uint32_t{0}).text("/bin/sh");
    CHECK(dispatch_record(writer.at(100), 0, lines));
    REQUIRE(lines.build_id.size() == std::min<std::size_t>(said_bytes, 20));
    CHECK(lines.build_id[15] == 15);
    CHECK(lines.last.inode == 0);
    CHECK(lines.path == "/bin/sh");
  }
}

TEST_CASE("records that are too short, and ranges that are none, are refused") {
  const std::vector<Bytes> whole = {
      fork_record(PERF_RECORD_FORK, 20, 21, 20, 100),
      comm_record(20, true, "sh", 100).size() > 24
          ? RecordWriter(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC).add(std::uint64_t{20}).at(100)
          : Bytes(),
      mapping_record(20, 0x1000, 0x1000, "/bin/sh", 100)};
  for (const Bytes& record : whole) {
    // The path's padding may go, its end may not.
    const std::size_t least = record.size() - sizeof(std::uint64_t);
    for (std::size_t bytes = 0; bytes < least; ++bytes) {
      Lines lines;
      CHECK_FALSE(dispatch_record({record.data(), bytes}, 0, lines));
      CHECK(lines.lines.empty());
    }
  }
  CHECK(said(mapping_record(20, 0x1000, 0, "/bin/sh", 100), false).empty());
  CHECK(said(mapping_record(20, ~std::uint64_t{0} - 10, 0x1000, "/bin/sh", 100), false).empty());
}

TEST_CASE("bytes of chance do no harm") {
  std::mt19937 random(5);
  Lines lines;
  for (int i = 0; i < 20'000; ++i) {
    Bytes record(random() % 200);
    for (std::byte& byte : record) byte = static_cast<std::byte>(random());
    if (record.size() >= 4) record[0] = static_cast<std::byte>(random() % 12), record[1] = record[2] = record[3] = {};
    (void)dispatch_record(record, 0, lines);
  }
}

}  // namespace spanfold::bpf::test
