// SPDX-License-Identifier: Apache-2.0
// Records of perf events about processes, out of a ring, and what the log of mappings makes of them. The kernel writes
// them, but paths and orders are anybody's.
#include "bpf/task_records.h"

#include <linux/perf_event.h>

#include "bpf/perf_ring.h"
#include "fuzz/fuzz.h"
#include "proc/mapping_log.h"

namespace {

constexpr std::size_t kRingBytes = 4096;

class Checked final : public spanfold::TaskSink {
 public:
  void on_fork(std::uint32_t pid, std::uint32_t tid, std::uint32_t parent, std::uint64_t boottime_ns) override {
    note(pid, boottime_ns);
    log_.on_fork(pid, tid, parent, boottime_ns);
  }
  void on_exec(std::uint32_t pid, std::uint64_t boottime_ns) override {
    note(pid, boottime_ns);
    log_.on_exec(pid, boottime_ns);
  }
  void on_mapping(const spanfold::TaskMapping& mapping) override {
    spanfold::fuzz::check(mapping.start < mapping.end, "a mapping has room");
    spanfold::fuzz::check(mapping.build_id.size() <= 20, "a build id fits");
    spanfold::fuzz::check(mapping.path.size() < kRingBytes, "a path ends");
    note(mapping.pid, mapping.boottime_ns);
    log_.on_mapping(mapping);
  }
  void on_exit(std::uint32_t pid, std::uint32_t tid, std::uint64_t boottime_ns) override {
    note(pid, boottime_ns);
    log_.on_exit(pid, tid, boottime_ns);
  }
  void on_lost(std::uint64_t since_ns, std::uint64_t until_ns) override { log_.on_lost(since_ns, until_ns); }
  void ask() {
    for (const auto& [pid, boottime_ns] : seen_) {
      const spanfold::ProcessKey key{.start_boottime_ns = boottime_ns, .pid = pid};
      const auto found = log_.find(key, {.start_code = 1}, boottime_ns + 1);
      if (found.image != nullptr) check_order(*found.image);
      spanfold::fuzz::check(log_.ancestors(pid, boottime_ns).size() <= 8, "ancestors are bounded");
    }
    log_.forget_gone(1UL << 40);
    log_.forget_gone(1UL << 60);
    spanfold::fuzz::check(log_.mappings() <= 256 && log_.processes() <= 64, "limits are kept");
  }

 private:
  void note(std::uint32_t pid, std::uint64_t boottime_ns) {
    spanfold::fuzz::check(pid != 0 && pid != ~0U, "a pid is one");
    seen_.emplace_back(pid, boottime_ns);
  }
  static void check_order(const spanfold::proc::LoggedImage& image) {
    std::uint64_t end = 0;
    for (const auto& range : image.mappings->ranges()) {
      spanfold::fuzz::check(range.start >= end && range.end > range.start, "mappings are in order and disjoint");
      end = range.end;
    }
  }

  spanfold::proc::MappingLog log_{{.processes = 64, .mappings = 256}};
  std::vector<std::pair<std::uint32_t, std::uint64_t>> seen_;
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spanfold;
  fuzz::Input input(data, size);
  // Where the ring begins, so that records wrap around.
  const std::uint64_t begin = std::uint64_t{input.take<std::uint8_t>()} * 16;
  const std::string_view bytes = input.text(kRingBytes);
  std::vector<std::byte> ring(kRingBytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    ring[(begin + i) % kRingBytes] = static_cast<std::byte>(bytes[i]);
  }
  perf_event_mmap_page page{};
  bpf::PerfRing reader(&page, ring);
  page.data_head = begin;
  reader.look();
  reader.pass(begin);
  page.data_head = begin + bytes.size() / 8 * 8;
  reader.look();
  Checked sink;
  bool broken = false;
  std::uint64_t before_ns = 0;
  std::size_t passed = 0;
  for (auto record = reader.next(broken); !record.empty(); record = reader.next(broken)) {
    const std::vector<std::byte> exact(record.begin(), record.end());  // so that a read beyond it is seen
    (void)bpf::dispatch_record(exact, before_ns, sink);
    before_ns = bpf::PerfRing::time_of(record);
    passed += record.size();
    reader.pass(record.size());
  }
  fuzz::check(passed <= bytes.size(), "no more is read than was written");
  sink.ask();
  return 0;
}
