// SPDX-License-Identifier: Apache-2.0
// An array map as memory of ours: written and read without system calls.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <utility>

#include "base/result.h"

namespace spanfold::bpf {

template <typename Value>
class SharedArray {
 public:
  SharedArray() = default;
  SharedArray(SharedArray&& other) noexcept
      : values_(std::exchange(other.values_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  SharedArray& operator=(SharedArray&& other) noexcept {
    std::swap(values_, other.values_);
    std::swap(count_, other.count_);
    return *this;
  }
  SharedArray(const SharedArray&) = delete;
  SharedArray& operator=(const SharedArray&) = delete;
  ~SharedArray() {
    if (values_ != nullptr) ::munmap(values_, bytes_of(count_));
  }

  // `fd` is of an array of `count` values that was made with BPF_F_MMAPABLE.
  [[nodiscard]] static Result<SharedArray> map(int fd, std::size_t count) {
    static_assert(sizeof(Value) % 8 == 0, "the kernel rounds values up to 8 bytes");
    void* memory = ::mmap(nullptr, bytes_of(count), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return errno_error("map an array of the programs");
    SharedArray array;
    array.values_ = static_cast<Value*>(memory);
    array.count_ = count;
    return array;
  }

  [[nodiscard]] std::size_t size() const { return count_; }
  Value& operator[](std::size_t index) const { return values_[index]; }

 private:
  static std::size_t bytes_of(std::size_t count) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return (count * sizeof(Value) + page - 1) / page * page;
  }
  Value* values_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace spanfold::bpf
