// SPDX-License-Identifier: Apache-2.0
#include "bpf/record_view.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "bpf/abi.h"
#include "bpf/messages.h"

namespace spanfold::bpf {
namespace {

template <typename Value>
std::size_t bytes_of(std::size_t count) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (count * sizeof(Value) + page - 1) / page * page;
}

template <typename Value>
Result<void*> map_array(int fd, std::size_t count) {
  void* memory = mmap(nullptr, bytes_of<Value>(count), PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return errno_error("map the records for reading");
  return memory;
}

}  // namespace

RecordView::~RecordView() { close(); }

void RecordView::close() {
  if (owners_ != nullptr) munmap(owners_, bytes_of<sf_owners>(buckets_));
  if (records_ != nullptr) munmap(records_, bytes_of<sf_record>(buckets_ * SF_BUCKET_WAYS));
  owners_ = nullptr;
  records_ = nullptr;
}

Status RecordView::open(int owners_fd, int records_fd, std::size_t buckets) {
  close();
  buckets_ = buckets;
  auto owners = map_array<sf_owners>(owners_fd, buckets);
  if (!owners) return owners.error();
  owners_ = *owners;
  auto records = map_array<sf_record>(records_fd, buckets * SF_BUCKET_WAYS);
  if (!records) return records.error();
  records_ = *records;
  return ok();
}

bool RecordView::any(std::size_t first, std::size_t count) const {
  const std::span owners(static_cast<const sf_owners*>(owners_), buckets_);
  std::uint64_t seen = 0;
  for (const sf_owners& bucket : owners.subspan(first, std::min(count, buckets_ - first))) {
    for (const __u64 owner : bucket.owner) seen |= owner;
  }
  return seen != 0;
}

std::vector<SpanContext> RecordView::carried() const {
  const std::span owners(static_cast<const sf_owners*>(owners_), buckets_);
  const std::span records(static_cast<const sf_record*>(records_), buckets_ * SF_BUCKET_WAYS);
  std::vector<SpanContext> spans;
  for (std::size_t place = 0; place < records.size(); ++place) {
    if (owners[place / SF_BUCKET_WAYS].owner[place % SF_BUCKET_WAYS] == 0) continue;
    const sf_record& record = records[place];
    if ((record.fold.stay & SF_STAY_GONE) == 0) spans.push_back(context_of(record.fold.span));
  }
  std::sort(spans.begin(), spans.end());
  spans.erase(std::unique(spans.begin(), spans.end()), spans.end());
  return spans;
}

}  // namespace spanfold::bpf
