// SPDX-License-Identifier: Apache-2.0
// The context map by system calls, for workloads that publish by themselves: own entries, or those of other threads.
#pragma once

#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "workload.h"

namespace workload {

class ContextMap {
 public:
  explicit ContextMap(const std::string& path) {
    bpf_attr attr{};
    attr.pathname = reinterpret_cast<std::uint64_t>(path.c_str());
    fd_ = call(BPF_OBJ_GET, attr);
    if (fd_ < 0) {
      std::perror(path.c_str());
      std::exit(1);
    }
  }
  ContextMap(const ContextMap&) = delete;
  ContextMap& operator=(const ContextMap&) = delete;
  ~ContextMap() { close(fd_); }

  // As bpf_get_current_pid_tgid() says it, in the first pid namespace.
  static std::uint64_t own_key() {
    return static_cast<std::uint64_t>(getpid()) << 32U | static_cast<std::uint64_t>(syscall(SYS_gettid));
  }

  void set(std::uint64_t key, const SpanIds& ids) const {
    // Wide enough for a map whose values have grown at their end.
    std::uint8_t value[64] = {};
    std::memcpy(value, ids.trace_id.data(), ids.trace_id.size());
    std::memcpy(value + ids.trace_id.size(), ids.span_id.data(), ids.span_id.size());
    bpf_attr attr{};
    attr.map_fd = static_cast<std::uint32_t>(fd_);
    attr.key = reinterpret_cast<std::uint64_t>(&key);
    attr.value = reinterpret_cast<std::uint64_t>(value);
    if (call(BPF_MAP_UPDATE_ELEM, attr) != 0) std::perror("set the context");
  }
  void clear(std::uint64_t key) const {
    bpf_attr attr{};
    attr.map_fd = static_cast<std::uint32_t>(fd_);
    attr.key = reinterpret_cast<std::uint64_t>(&key);
    call(BPF_MAP_DELETE_ELEM, attr);
  }
  // A look from here leaves the entry's age as it is: the kernel counts only those of programs as use.
  [[nodiscard]] bool has(std::uint64_t key) const {
    std::uint8_t value[64] = {};
    bpf_attr attr{};
    attr.map_fd = static_cast<std::uint32_t>(fd_);
    attr.key = reinterpret_cast<std::uint64_t>(&key);
    attr.value = reinterpret_cast<std::uint64_t>(value);
    return call(BPF_MAP_LOOKUP_ELEM, attr) == 0;
  }

 private:
  static int call(int command, bpf_attr& attr) {
    return static_cast<int>(syscall(SYS_bpf, command, &attr, sizeof(attr)));
  }

  int fd_ = -1;
};

}  // namespace workload
