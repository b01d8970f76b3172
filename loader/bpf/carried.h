// SPDX-License-Identifier: Apache-2.0
// The spans that threads carry at this moment, as their records in the kernel say.
#pragma once

#include <cstddef>
#include <vector>

#include "base/frame.h"
#include "base/result.h"

namespace spanfold::bpf {

class Carried {
 public:
  Carried() = default;
  Carried(const Carried&) = delete;
  Carried& operator=(const Carried&) = delete;
  ~Carried();

  // Maps the two arrays of `buckets` buckets for reading; call again when other descriptors stand for them.
  Status open(int owners_fd, int records_fd, std::size_t buckets);
  // Current spans, and those that nested ones cover; sorted, each once. Records change meanwhile: a span that comes or
  // goes at this very moment may be there or not.
  [[nodiscard]] std::vector<SpanContext> spans() const;

 private:
  void close();

  const void* owners_ = nullptr;
  const void* records_ = nullptr;
  std::size_t buckets_ = 0;
};

}  // namespace spanfold::bpf
