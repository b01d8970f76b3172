// SPDX-License-Identifier: Apache-2.0
// A ring in memory: records that wrap around, what is no record, and how full it was.
#include <doctest/doctest.h>

#include "bpf/perf_ring.h"
#include "unit/bpf/task_bytes.h"

namespace spanfold::bpf::test {
namespace {

constexpr std::size_t kRingBytes = 8192;

struct Kernel {
  perf_event_mmap_page page{};
  Bytes data = Bytes(kRingBytes);
  PerfRing ring{&page, data};

  void write(const Bytes& record) {
    for (const std::byte byte : record) data[page.data_head++ % kRingBytes] = byte;
  }
};

// All that is there, by name.
std::vector<std::string> take(PerfRing& ring, bool& broken) {
  ring.look();
  std::vector<std::string> texts;
  for (auto record = ring.next(broken); !record.empty(); record = ring.next(broken)) {
    texts.emplace_back(reinterpret_cast<const char*>(record.data()) + 16);
    CHECK(PerfRing::time_of(record) == 9);
    ring.pass(record.size());
  }
  return texts;
}

}  // namespace

TEST_CASE("records come as they were written, wherever the ring ends") {
  Kernel kernel;
  std::size_t written = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> names;
    for (int i = 0; i < round % 7; ++i) {
      names.push_back("name-" + std::to_string(written++) + std::string(static_cast<std::size_t>(round) % 40, 'x'));
      kernel.write(comm_record(1, true, names.back(), 9));
    }
    bool broken = false;
    CHECK(take(kernel.ring, broken) == names);
    CHECK_FALSE(broken);
    CHECK_FALSE(kernel.ring.was_full());
    kernel.ring.give_back();
    CHECK(kernel.page.data_tail == kernel.page.data_head);
  }
}

TEST_CASE("what is no record ends there, and is told") {
  for (const std::uint16_t bytes : std::vector<std::uint16_t>{0, 8, 12, 20, 4096, 65528}) {
    CAPTURE(bytes);
    Kernel kernel;
    kernel.write(comm_record(1, true, "good", 9));
    Bytes bad = comm_record(1, true, "bad", 9);
    std::memcpy(bad.data() + offsetof(perf_event_header, size), &bytes, sizeof(bytes));
    kernel.write(bad);
    bool broken = false;
    CHECK(take(kernel.ring, broken) == std::vector<std::string>{"good"});
    CHECK(broken);
    kernel.ring.give_back();
    kernel.write(comm_record(1, true, "later", 9));
    CHECK(take(kernel.ring, broken) == std::vector<std::string>{"later"});
  }
}

TEST_CASE("a ring without room for the longest record was full") {
  Kernel kernel;
  const Bytes record = comm_record(1, true, "name", 9);
  kernel.ring.look();
  CHECK_FALSE(kernel.ring.was_full());
  while (kernel.page.data_head + record.size() < kRingBytes) kernel.write(record);
  bool broken = false;
  CHECK(!take(kernel.ring, broken).empty());
  CHECK(kernel.ring.was_full());
  kernel.ring.give_back();
  kernel.ring.look();
  CHECK_FALSE(kernel.ring.was_full());
}

}  // namespace spanfold::bpf::test
