// SPDX-License-Identifier: Apache-2.0
#include "bpf/features.h"

#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>

#include "base/fd.h"

namespace spanfold::bpf {
namespace {

// BPF_XCHG of linux/bpf.h, which older headers lack.
constexpr int kExchange = 0xe0 | 0x01;

constexpr bpf_insn instruction(int code, int target, int source, int offset, int immediate) {
  return {.code = static_cast<__u8>(code),
          .dst_reg = static_cast<__u8>(target & 0xf),
          .src_reg = static_cast<__u8>(source & 0xf),
          .off = static_cast<__s16>(offset),
          .imm = immediate};
}

Fd load(bpf_prog_type type, bpf_attach_type attach, __u32 attach_id, std::span<const bpf_insn> code) {
  static constexpr std::array<char, 4> kLicense = {"GPL"};
  bpf_attr attr{};
  attr.prog_type = type;
  attr.expected_attach_type = attach;
  attr.attach_btf_id = attach_id;
  attr.insns = reinterpret_cast<__u64>(code.data());
  attr.insn_cnt = static_cast<__u32>(code.size());
  attr.license = reinterpret_cast<__u64>(kLicense.data());
  return Fd(static_cast<int>(syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr))));
}

}  // namespace

bool has_fetch_atomics() {
  static constexpr std::array<bpf_insn, 5> kCode = {
      instruction(BPF_ST | BPF_MEM | BPF_DW, BPF_REG_10, 0, -8, 0),
      instruction(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_1, 0, 0, 1),
      instruction(BPF_STX | BPF_DW | 0xc0, BPF_REG_10, BPF_REG_1, -8, kExchange),
      instruction(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_0, BPF_REG_1, 0, 0),
      instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
  };
  return load(BPF_PROG_TYPE_SOCKET_FILTER, BPF_CGROUP_INET_INGRESS, 0, kCode).get() >= 0;
}

int fentry_refusal() {
  static constexpr std::array<bpf_insn, 2> kCode = {
      instruction(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0),
      instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
  };
  // Type 1 is no function: a kernel that takes fentry programs says EINVAL, one that does not is asked no further.
  const Fd program = load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, 1, kCode);
  return program || errno == EINVAL ? 0 : errno;
}

}  // namespace spanfold::bpf
