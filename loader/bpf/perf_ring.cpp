// SPDX-License-Identifier: Apache-2.0
#include "bpf/perf_ring.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace spanfold::bpf {
namespace {

// The longest that an event of ours can be: a mapping with a path of PATH_MAX.
constexpr std::size_t kMostRecordBytes = 4096 + 256;
constexpr std::size_t kAlignment = sizeof(std::uint64_t);

}  // namespace

void PerfRing::Unmap::operator()(void* address) const { munmap(address, bytes); }

PerfRing::PerfRing(perf_event_mmap_page* page, std::span<const std::byte> data) : page_(page), data_(data) {}

Result<PerfRing> PerfRing::map(int event, std::size_t data_bytes) {
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t bytes = page_bytes + data_bytes;
  void* const address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, event, 0);
  if (address == MAP_FAILED) {
    return errno_error("map the ring of a perf event", "kernel.perf_event_mlock_kb limits who has no CAP_IPC_LOCK");
  }
  PerfRing ring(static_cast<perf_event_mmap_page*>(address),
                {static_cast<const std::byte*>(address) + page_bytes, data_bytes});
  ring.mapped_ = std::unique_ptr<void, Unmap>(address, Unmap{bytes});
  return ring;
}

void PerfRing::look() {
  head_ = std::atomic_ref(page_->data_head).load(std::memory_order_acquire);
  // The kernel never writes more than there is room for.
  if (head_ - tail_ > data_.size()) tail_ = head_;
}

bool PerfRing::was_full() const { return head_ - page_->data_tail + kMostRecordBytes > data_.size(); }

std::span<const std::byte> PerfRing::next(bool& broken) {
  if (tail_ == head_) return {};
  const std::uint64_t mask = data_.size() - 1;
  const std::size_t at = tail_ & mask;
  perf_event_header header{};
  // Records begin and end at multiples of eight bytes, so a header does not wrap around.
  std::memcpy(&header, &data_[at], sizeof(header));
  const std::size_t bytes = header.size;
  if (bytes < sizeof(header) + sizeof(std::uint64_t) || bytes % kAlignment != 0 || bytes > head_ - tail_) {
    broken = true;
    tail_ = head_;
    return {};
  }
  if (at + bytes <= data_.size()) return data_.subspan(at, bytes);
  const std::span<const std::byte> first = data_.subspan(at);
  joined_.assign(first.begin(), first.end());
  joined_.insert(joined_.end(), data_.begin(), data_.begin() + static_cast<std::ptrdiff_t>(bytes - first.size()));
  return joined_;
}

std::uint64_t PerfRing::time_of(std::span<const std::byte> record) {
  std::uint64_t time = 0;
  std::memcpy(&time, record.last(sizeof(time)).data(), sizeof(time));
  return time;
}

void PerfRing::give_back() { std::atomic_ref(page_->data_tail).store(tail_, std::memory_order_release); }

}  // namespace spanfold::bpf
