// SPDX-License-Identifier: Apache-2.0
// The clocks' rates: what is refused, what is owed, and that a change of rate reaches the kernel on every CPU.
#include <bpf/bpf.h>
#include <doctest/doctest.h>
#include <linux/bpf.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "base/fd.h"
#include "bpf/clock_events.h"
#include "bpf/cpus.h"

using spanfold::Failure;
using spanfold::Fd;
using spanfold::bpf::ClockEvents;

namespace {

std::string setting(const char* path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  return text;
}

// A map of one counter a CPU, and a program that adds one to it: a tick program in eleven instructions.
struct Counter {
  Fd map{bpf_map_create(BPF_MAP_TYPE_PERCPU_ARRAY, "ticks", 4, 8, 1, nullptr)};
  Fd program;

  Counter() {
    const bpf_insn code[] = {
        {.code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = BPF_REG_10, .off = -4, .imm = 0},
        {.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_2, .src_reg = BPF_REG_10},
        {.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_2, .imm = -4},
        {.code = BPF_LD | BPF_IMM | BPF_DW, .dst_reg = BPF_REG_1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map.get()},
        {},
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_map_lookup_elem},
        {.code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = BPF_REG_0, .off = 3},
        {.code = BPF_LDX | BPF_MEM | BPF_DW, .dst_reg = BPF_REG_1, .src_reg = BPF_REG_0},
        {.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_1, .imm = 1},
        {.code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = BPF_REG_0, .src_reg = BPF_REG_1},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
        {.code = BPF_JMP | BPF_EXIT},
    };
    program = Fd(bpf_prog_load(BPF_PROG_TYPE_PERF_EVENT, "on_tick", "GPL", code, std::size(code), nullptr));
  }

  [[nodiscard]] std::uint64_t total() const {
    std::array<std::uint64_t, 1024> values{};
    const std::uint32_t key = 0;
    REQUIRE(bpf_map_lookup_elem(map.get(), &key, values.data()) == 0);
    std::uint64_t sum = 0;
    for (const std::uint64_t value : values) sum += value;
    return sum;
  }
};

void burn(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

}  // namespace

TEST_CASE("a rate above the sysctl is refused, and the refusal names it") {
  if (geteuid() != 0) return;
  const std::string most = setting("/proc/sys/kernel/perf_event_max_sample_rate");
  auto clocks = ClockEvents::open(static_cast<std::uint32_t>(std::stoul(most)) + 1, {}, -1);
  REQUIRE(!clocks);
  CHECK(clocks.error().failure == Failure::kHost);
  CHECK(clocks.error().hint.find("kernel.perf_event_max_sample_rate is " + most) != std::string::npos);
}

TEST_CASE("what is owed is exact over changes of the rate") {
  if (geteuid() != 0) return;
  Counter counter;
  if (!counter.program) return;  // no BPF here: the end-to-end tests skip as well
  cpu_set_t mask;
  REQUIRE(sched_getaffinity(0, sizeof(mask), &mask) == 0);
  // The CPU that this thread burns: a hypervisor may stop the clock of one that idles.
  const int cpu = sched_getcpu();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
  auto clocks = ClockEvents::open(200, {cpu}, counter.program.get());
  REQUIRE(clocks);
  REQUIRE(clocks->set_frequency(100));  // before it runs
  REQUIRE(clocks->enable());
  std::uint64_t before = 0;
  for (const std::uint32_t rate : {100U, 4000U, 50U, 1000U}) {
    CAPTURE(rate);
    REQUIRE(clocks->set_frequency(rate));
    burn(std::chrono::milliseconds(103));
    const std::uint64_t ticks = counter.total();
    const std::uint64_t owed = clocks->owed();
    // No run without its being owed, but for one that falls between the two clocks; and hardly any owed without a run.
    CHECK(owed + 2 >= ticks);
    CHECK(owed - before >= rate / 10 - 1);
    CHECK(static_cast<double>(ticks) >= 0.5 * static_cast<double>(owed));
    before = owed;
  }
  clocks->disable();
  const std::uint64_t ticks = counter.total();
  const std::uint64_t owed = clocks->owed();
  CHECK(owed + 2 >= ticks);
  REQUIRE(clocks->set_frequency(10));  // after it ran: what was owed stays
  CHECK(clocks->owed() == owed);
  sched_setaffinity(0, sizeof(mask), &mask);
}

TEST_CASE("lists of CPUs") {
  using spanfold::bpf::parse_cpu_list;
  CHECK(parse_cpu_list("0-3,5\n") == std::vector<int>{0, 1, 2, 3, 5});
  CHECK(parse_cpu_list("2,0,2") == std::vector<int>{0, 2});
  for (const char* bad : {"", "-", "1-", "3-1", "1,", "a", "1;2", "99999999"}) CHECK(parse_cpu_list(bad).empty());
}
