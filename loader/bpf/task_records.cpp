// SPDX-License-Identifier: Apache-2.0
#include "bpf/task_records.h"

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace spanfold::bpf {
namespace {

// Layouts of <linux/perf_event.h> behind the header, up to what varies in length.
struct ForkRecord {  // and that of an exit
  std::uint32_t pid, parent_pid, tid, parent_tid;
  std::uint64_t time_ns;
};
struct CommRecord {
  std::uint32_t pid, tid;
};
struct Mmap2Record {
  std::uint32_t pid, tid;
  std::uint64_t start, bytes, file_offset;
  union {
    struct {
      std::uint32_t major, minor;
      std::uint64_t inode, generation;
    } file;
    struct {
      std::uint8_t bytes;
      std::array<std::uint8_t, 3> reserved;
      std::array<std::uint8_t, 20> text;
    } build_id;
  } id;
  std::uint32_t protection, flags;
};
static_assert(sizeof(ForkRecord) == 24 && sizeof(CommRecord) == 8 && sizeof(Mmap2Record) == 64);

template <typename T>
requires std::is_trivially_copyable_v<T>
bool read_front(std::span<const std::byte> body, T& value) {
  if (body.size() < sizeof(value)) return false;
  std::memcpy(&value, body.data(), sizeof(value));
  return true;
}

// Pids of tasks that this process's pid namespace does not hold are 0, or all ones.
bool is_pid(std::uint32_t pid) { return pid != 0 && pid != ~std::uint32_t{0}; }

bool dispatch_mapping(std::span<const std::byte> body, std::uint16_t misc, std::uint64_t time_ns, TaskSink& sink) {
  Mmap2Record record{};
  if (!read_front(body, record)) return false;
  if (!is_pid(record.pid) || (record.protection & PROT_EXEC) == 0) return true;
  const std::span<const std::byte> text = body.subspan(sizeof(record));
  const auto* const path = reinterpret_cast<const char*>(text.data());
  const void* const end = std::memchr(path, '\0', text.size());
  if (end == nullptr || record.start + record.bytes <= record.start) return false;
  TaskMapping mapping{.pid = record.pid,
                      .boottime_ns = time_ns,
                      .start = record.start,
                      .end = record.start + record.bytes,
                      .file_offset = record.file_offset,
                      .path = {path, static_cast<const char*>(end)}};
  if ((misc & PERF_RECORD_MISC_MMAP_BUILD_ID) != 0) {
    const std::size_t bytes = std::min<std::size_t>(record.id.build_id.bytes, record.id.build_id.text.size());
    mapping.build_id = std::span(record.id.build_id.text).first(bytes);
  } else {
    mapping.device = makedev(record.id.file.major, record.id.file.minor);
    mapping.inode = record.id.file.inode;
  }
  sink.on_mapping(mapping);
  return true;
}

bool dispatch_fork(std::span<const std::byte> body, std::uint64_t time_ns, TaskSink& sink) {
  ForkRecord record{};
  if (!read_front(body, record)) return false;
  if (is_pid(record.pid)) sink.on_fork(record.pid, record.tid, record.parent_pid, time_ns);
  return true;
}

bool dispatch_exit(std::span<const std::byte> body, std::uint64_t time_ns, TaskSink& sink) {
  ForkRecord record{};
  if (!read_front(body, record)) return false;
  if (is_pid(record.pid)) sink.on_exit(record.pid, record.tid, time_ns);
  return true;
}

bool dispatch_comm(std::span<const std::byte> body, std::uint16_t misc, std::uint64_t time_ns, TaskSink& sink) {
  CommRecord record{};
  if (!read_front(body, record)) return false;
  if (is_pid(record.pid) && (misc & PERF_RECORD_MISC_COMM_EXEC) != 0) sink.on_exec(record.pid, time_ns);
  return true;
}

}  // namespace

bool dispatch_record(std::span<const std::byte> record, std::uint64_t before_ns, TaskSink& sink) {
  perf_event_header header{};
  std::uint64_t time_ns = 0;
  if (record.size() < sizeof(header) + sizeof(time_ns)) return false;
  std::memcpy(&header, record.data(), sizeof(header));
  std::memcpy(&time_ns, record.last(sizeof(time_ns)).data(), sizeof(time_ns));
  const auto body = record.subspan(sizeof(header), record.size() - sizeof(header) - sizeof(time_ns));
  switch (header.type) {
    case PERF_RECORD_MMAP2: return dispatch_mapping(body, header.misc, time_ns, sink);
    case PERF_RECORD_FORK: return dispatch_fork(body, time_ns, sink);
    case PERF_RECORD_EXIT: return dispatch_exit(body, time_ns, sink);
    case PERF_RECORD_COMM: return dispatch_comm(body, header.misc, time_ns, sink);
    case PERF_RECORD_LOST: sink.on_lost(before_ns, time_ns); return true;
    default: return true;
  }
}

}  // namespace spanfold::bpf
