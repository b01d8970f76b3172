// SPDX-License-Identifier: Apache-2.0
// Remembers which bytes of a source a reader saw. Whatever it made of them, it would make of any source that has the
// same ones: no need to trust what files say of themselves, like build ids.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "proc/byte_source.h"

namespace spanfold::proc {

class RecordedSource final : public ByteSource {
 public:
  explicit RecordedSource(std::shared_ptr<const ByteSource> source) : source_(std::move(source)) {}
  [[nodiscard]] std::uint64_t size() const override { return source_->size(); }
  [[nodiscard]] bool unchanged() const override { return source_->unchanged(); }
  [[nodiscard]] std::size_t read_some(std::uint64_t offset, std::span<char> into) const override;

  // Counts bytes as seen that will be read later.
  void include(std::uint64_t offset, std::uint64_t bytes);
  // From now on, reads are not remembered.
  void stop();

  // True where `other` is as long and has the same bytes wherever this one was read, as far as `budget_bytes`, which it
  // lowers by what it compares, allows to tell. Call after stop().
  [[nodiscard]] bool reads_like(const ByteSource& other, std::uint64_t& budget_bytes) const;

  // True where nobody else holds the source.
  [[nodiscard]] bool is_alone() const { return source_.use_count() == 1; }
  [[nodiscard]] std::size_t memory_bytes() const { return seen_.capacity() * sizeof(Extent); }

 private:
  struct Extent {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    auto operator<=>(const Extent&) const = default;
  };

  void merge() const;

  static constexpr std::size_t kMergeAt = 16UL * 1024;  // whoever reads here and there makes many
  std::shared_ptr<const ByteSource> source_;
  bool recording_ = true;
  mutable std::size_t merge_at_ = kMergeAt;
  mutable std::vector<Extent> seen_;
};

}  // namespace spanfold::proc
