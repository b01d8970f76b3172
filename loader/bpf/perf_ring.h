// SPDX-License-Identifier: Apache-2.0
// The ring of one perf event: records that the kernel wrote, oldest first, without copying what does not wrap around.
#pragma once

#include <linux/perf_event.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"

namespace spanfold::bpf {

class PerfRing {
 public:
  // Maps the ring of an event; `data_bytes` is a power of two, of pages.
  static Result<PerfRing> map(int event, std::size_t data_bytes);
  // A ring in memory of the caller's, as the kernel lays it out: a page of its own before the data.
  PerfRing(perf_event_mmap_page* page, std::span<const std::byte> data);

  // Looks how far the kernel has come: next() gives records up to there.
  void look();
  // Whether the ring was so full at the last look that the kernel may have had to leave a record out.
  [[nodiscard]] bool was_full() const;
  // The oldest record that was not passed, header and all; empty where there is none. Valid until the next call of
  // anything here. What makes no sense as a record is passed with all that follows: `broken` becomes true.
  [[nodiscard]] std::span<const std::byte> next(bool& broken);
  // The last eight bytes of the record that next() gave, without the rest: the time, in events that ask for no more.
  [[nodiscard]] static std::uint64_t time_of(std::span<const std::byte> record);
  void pass(std::size_t bytes) { tail_ += bytes; }
  // Gives the room of what was passed back to the kernel.
  void give_back();

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(void* address) const;
  };

  std::unique_ptr<void, Unmap> mapped_{nullptr, Unmap{0}};
  perf_event_mmap_page* page_ = nullptr;
  std::span<const std::byte> data_;
  std::vector<std::byte> joined_;  // a record that wraps around
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
};

}  // namespace spanfold::bpf
