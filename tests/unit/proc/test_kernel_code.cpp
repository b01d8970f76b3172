// SPDX-License-Identifier: Apache-2.0
// What of the kernel's code comes and goes, and the names of BPF programs that do.
#include <doctest/doctest.h>
#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "fixture.h"
#include "proc/kernel.h"
#include "proc/kernel_code.h"

namespace spanfold::proc::test {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;

// `return 0`, under a name of its own; none where that is not allowed.
Fd load_program(const char* name) {
  const bpf_insn code[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
                           {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
  attributes.insns = reinterpret_cast<std::uint64_t>(code);
  attributes.insn_cnt = 2;
  attributes.license = reinterpret_cast<std::uint64_t>("GPL");
  std::strncpy(attributes.prog_name, name, sizeof attributes.prog_name - 1);
  return Fd(static_cast<int>(::syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof attributes)));
}

// Where /proc/kallsyms shows a BPF program of this name.
std::optional<std::uint64_t> address_of(const std::string& name) {
  const auto text = read_file("/proc/kallsyms", 256UL << 20);
  const std::size_t at = text ? text->find("_" + name + "\t[bpf]") : std::string::npos;
  if (at == std::string::npos) return {};
  const std::uint64_t address = std::stoull(text->substr(text->rfind('\n', at) + 1), nullptr, 16);
  return address == 0 ? std::nullopt : std::optional(address);
}

}  // namespace

TEST_CASE("kernel code: modules by name, size, state and address, not by who uses them") {
  constexpr std::string_view kBefore =
      "nf_tables 372736 568 nft_ct,nft_nat, Live 0xffffffffc0a5d000\n"
      "loop 45056 0 - Live 0xffffffffc0300000 (OE)\n";
  constexpr std::string_view kUsed =
      "nf_tables 372736 570 nft_ct,nft_nat,nft_chain, Live 0xffffffffc0a5d000\n"
      "loop 45056 2 - Live 0xffffffffc0300000 (OE)\n";
  constexpr std::string_view kMoved =
      "nf_tables 372736 568 nft_ct,nft_nat, Live 0xffffffffc0a5d000\n"
      "loop 45056 0 - Live 0xffffffffc0400000 (OE)\n";
  CHECK(modules_in(kBefore) == modules_in(kUsed));
  CHECK(modules_in(kBefore) != modules_in(kMoved));
  CHECK(modules_in(kBefore) != modules_in(kBefore.substr(0, kBefore.find('\n') + 1)));
  CHECK(modules_in("").empty());
  for (std::size_t cut = 0; cut < kBefore.size(); ++cut) (void)modules_in(kBefore.substr(0, cut));
}

TEST_CASE("kernel code: a program that went is told from one that came") {
  const KernelCode before{.programs = {1, 5, 9}};
  CHECK(!KernelCode{.programs = {1, 5, 9, 12}}.lost_program_of(before));
  CHECK(KernelCode{.programs = {1, 9, 12}}.lost_program_of(before));
  CHECK(KernelCode{}.lost_program_of(before));
  CHECK(before == KernelCode{.programs = {1, 5, 9}});
  CHECK(before != KernelCode{.programs = {1, 5, 9, 12}});
}

TEST_CASE("kernel frames: a BPF program that comes has its name, one that went has none") {
  const std::string name = "come_and_go_" + std::to_string(::getpid() % 1000);
  Interner interner;
  Kernel kernel(interner, true);
  std::uint64_t now_ns = boot_clock_ns();
  (void)kernel.frame_at(1, now_ns);
  Fd program = load_program(name.c_str());
  const auto address = program ? address_of(name) : std::nullopt;
  if (!address || !KernelCode::now().knows_programs) {
    MESSAGE("SKIPPED: BPF programs cannot be loaded, or /proc/kallsyms does not show them");
    return;
  }
  const auto named = [&](std::uint64_t after_ns) {
    const Frame frame = kernel.frame_at(*address, now_ns += after_ns).frame;
    return frame.function != nullptr && frame.function->ends_with(name);
  };
  CHECK(!named(0));
  CHECK(named(1000 * kSecondNs));
  const Frame frame = kernel.frame_at(*address, now_ns).frame;
  CHECK(frame.mapping->filename == "[bpf]");
  CHECK(frame.type == FrameType::kKernel);
  program.reset();
  for (int i = 0; i < 500 && address_of(name); ++i) ::usleep(20'000);
  REQUIRE(!address_of(name));
  CHECK(named(0));  // not compared again so soon
  CHECK(!named(2 * kSecondNs));
  CHECK(!named(1000 * kSecondNs));
}

TEST_CASE("kernel frames: the kernel's build id is that of its notes") {
  const auto notes = read_file("/sys/kernel/notes", 64UL * 1024);
  Interner interner;
  Kernel kernel(interner, true);
  const auto text = read_file("/proc/kallsyms", 256UL << 20);
  const std::size_t at = text ? text->find(" T _text\n") : std::string::npos;
  const std::uint64_t start =
      at == std::string::npos ? 0 : std::stoull(text->substr(text->rfind('\n', at) + 1), nullptr, 16);
  if (!notes || start == 0) {
    MESSAGE("SKIPPED: this kernel shows no notes, or no addresses");
    return;
  }
  const Mapping* mapping = kernel.frame_at(start).frame.mapping;
  REQUIRE(mapping != nullptr);
  const std::string& id = mapping->build_id_gnu;
  REQUIRE(id.size() == 40);
  std::string bytes;
  for (std::size_t i = 0; i < id.size(); i += 2) bytes += static_cast<char>(std::stoi(id.substr(i, 2), nullptr, 16));
  CHECK(notes->find(std::string("GNU\0", 4) + bytes) != std::string::npos);
}

}  // namespace spanfold::proc::test
