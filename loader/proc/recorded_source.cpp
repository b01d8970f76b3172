// SPDX-License-Identifier: Apache-2.0
#include "proc/recorded_source.h"

#include <algorithm>
#include <limits>
#include <string>

namespace spanfold::proc {

std::size_t RecordedSource::read_some(std::uint64_t offset, std::span<char> into) const {
  const std::size_t got = source_->read_some(offset, into);
  if (!recording_ || got == 0) return got;
  // Most reads go on where the last one ended.
  if (!seen_.empty() && seen_.back().end == offset) {
    seen_.back().end += got;
  } else {
    seen_.push_back({offset, offset + got});
    if (seen_.size() >= merge_at_) merge();
  }
  return got;
}

void RecordedSource::include(std::uint64_t offset, std::uint64_t bytes) {
  if (offset >= size()) return;
  seen_.push_back({offset, offset + std::min(bytes, size() - offset)});
}

void RecordedSource::stop() {
  recording_ = false;
  merge();
  seen_.shrink_to_fit();
}

void RecordedSource::merge() const {
  std::sort(seen_.begin(), seen_.end());
  std::vector<Extent> merged;
  for (const Extent& extent : seen_) {
    if (!merged.empty() && extent.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, extent.end);
    } else {
      merged.push_back(extent);
    }
  }
  seen_ = std::move(merged);
  merge_at_ = std::max(kMergeAt, 2 * seen_.size());
}

bool RecordedSource::reads_like(const ByteSource& other, std::uint64_t& budget_bytes) const {
  if (other.size() != size()) return false;
  constexpr std::uint64_t kPieceBytes = 256UL * 1024;
  std::string ours(kPieceBytes, '\0');
  std::string theirs(kPieceBytes, '\0');
  for (const Extent& extent : seen_) {
    for (std::uint64_t at = extent.begin; at < extent.end;) {
      const std::size_t want = std::min(kPieceBytes, extent.end - at);
      if (want > budget_bytes) return false;
      budget_bytes -= want;
      const auto read = [&](const ByteSource& source, std::string& into) {
        return source.read_exactly(at, std::span(into).first(want));
      };
      if (!read(*source_, ours) || !read(other, theirs)) return false;
      if (!std::equal(ours.begin(), ours.begin() + static_cast<std::ptrdiff_t>(want), theirs.begin())) return false;
      at += want;
    }
  }
  return true;
}

}  // namespace spanfold::proc
