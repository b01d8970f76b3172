// SPDX-License-Identifier: Apache-2.0
// Looks at the kernel side's records without a system call: who has any, and what threads carry at this moment.
#pragma once

#include <cstddef>
#include <vector>

#include "base/frame.h"
#include "base/result.h"

namespace spanfold::bpf {

class RecordView {
 public:
  RecordView() = default;
  RecordView(const RecordView&) = delete;
  RecordView& operator=(const RecordView&) = delete;
  ~RecordView();

  // Maps the two arrays of `buckets` buckets for reading; call again when other descriptors stand for them.
  Status open(int owners_fd, int records_fd, std::size_t buckets);
  // True where some of `count` buckets from `first` on hold a record.
  [[nodiscard]] bool any(std::size_t first, std::size_t count) const;
  [[nodiscard]] std::size_t buckets() const { return buckets_; }
  // Current spans, and those that nested ones cover; sorted, each once. Records change meanwhile: a span that comes or
  // goes at this very moment may be there or not.
  [[nodiscard]] std::vector<SpanContext> carried() const;

 private:
  void close();

  void* owners_ = nullptr;  // mapped for reading
  void* records_ = nullptr;
  std::size_t buckets_ = 0;
};

}  // namespace spanfold::bpf
