// SPDX-License-Identifier: Apache-2.0
// Records as the kernel writes them, and what is made of them.
#pragma once

#include <linux/perf_event.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/task_sink.h"

namespace spanfold::bpf::test {

using Bytes = std::vector<std::byte>;

class RecordWriter {
 public:
  explicit RecordWriter(std::uint32_t type, std::uint16_t misc = 0) : header_{.type = type, .misc = misc, .size = 0} {}
  template <typename T>
  RecordWriter& add(T value) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
    body_.insert(body_.end(), bytes, bytes + sizeof(value));
    return *this;
  }
  RecordWriter& text(std::string_view text) {
    for (const char byte : text) body_.push_back(static_cast<std::byte>(byte));
    do {
      body_.push_back(std::byte{0});
    } while (body_.size() % sizeof(std::uint64_t) != 0);
    return *this;
  }
  Bytes at(std::uint64_t time_ns) {
    add(time_ns);
    header_.size = static_cast<std::uint16_t>(sizeof(header_) + body_.size());
    Bytes record(header_.size);
    std::memcpy(record.data(), &header_, sizeof(header_));
    std::memcpy(record.data() + sizeof(header_), body_.data(), body_.size());
    return record;
  }

 private:
  perf_event_header header_;
  Bytes body_;
};

inline Bytes fork_record(std::uint32_t type, std::uint32_t pid, std::uint32_t tid, std::uint32_t parent,
                         std::uint64_t time_ns) {
  return RecordWriter(type).add(pid).add(parent).add(tid).add(parent).add(time_ns).at(time_ns);
}
inline Bytes comm_record(std::uint32_t pid, bool exec, std::string_view name, std::uint64_t time_ns) {
  return RecordWriter(PERF_RECORD_COMM, exec ? PERF_RECORD_MISC_COMM_EXEC : 0).add(pid).add(pid).text(name).at(time_ns);
}
inline RecordWriter mapping_head(std::uint32_t pid, std::uint64_t start, std::uint64_t bytes, std::uint16_t misc) {
  RecordWriter writer(PERF_RECORD_MMAP2, misc);
  writer.add(pid).add(pid).add(start).add(bytes).add(std::uint64_t{0x2000});
  return writer;
}
inline Bytes mapping_record(std::uint32_t pid, std::uint64_t start, std::uint64_t bytes, std::string_view path,
                            std::uint64_t time_ns, std::uint32_t protection = PROT_READ | PROT_EXEC) {
  RecordWriter writer = mapping_head(pid, start, bytes, PERF_RECORD_MISC_USER);
  writer.add(std::uint32_t{8}).add(std::uint32_t{3}).add(std::uint64_t{4711}).add(std::uint64_t{1});
  return writer.add(protection).add(std::uint32_t{MAP_PRIVATE}).text(path).at(time_ns);
}

// One line for each call.
class Lines : public TaskSink {
 public:
  void on_fork(std::uint32_t pid, std::uint32_t tid, std::uint32_t parent, std::uint64_t boottime_ns) override {
    add(boottime_ns, "fork", pid, std::to_string(tid) + " by " + std::to_string(parent));
  }
  void on_exec(std::uint32_t pid, std::uint64_t boottime_ns) override { add(boottime_ns, "exec", pid, ""); }
  void on_mapping(const TaskMapping& mapping) override {
    last = mapping;
    path = mapping.path;
    build_id.assign(mapping.build_id.begin(), mapping.build_id.end());
    add(mapping.boottime_ns, "map", mapping.pid, path);
  }
  void on_exit(std::uint32_t pid, std::uint32_t tid, std::uint64_t boottime_ns) override {
    add(boottime_ns, "exit", pid, std::to_string(tid));
  }
  void on_lost(std::uint64_t since_ns, std::uint64_t until_ns) override {
    add(until_ns, "lost since", static_cast<std::uint32_t>(since_ns), "");
  }

  std::vector<std::string> lines;
  TaskMapping last;  // its views are void
  std::string path;
  std::vector<std::uint8_t> build_id;

 private:
  void add(std::uint64_t boottime_ns, const std::string& what, std::uint32_t pid, const std::string& more) {
    lines.push_back(std::to_string(boottime_ns) + " " + what + " " + std::to_string(pid) + (more.empty() ? "" : " ") +
                    more);
  }
};

}  // namespace spanfold::bpf::test
