// SPDX-License-Identifier: Apache-2.0
#include "proc/jit_table.h"

#include <algorithm>
#include <limits>

namespace spanfold::proc {
namespace {

std::uint64_t end_of(const JitCode& code) { return code.start + code.bytes; }
bool earlier(const JitCode& a, const JitCode& b) { return a.where < b.where; }
bool starts_before(const JitCode& a, const JitCode& b) { return a.start < b.start; }

// Goes over entries in order of their start, and writes down who owns each stretch.
class Sweep {
 public:
  explicit Sweep(std::size_t about) { owned_.reserve(about); }
  void open(const JitCode& code) {
    advance(code.start);
    open_.push_back(code);
    std::push_heap(open_.begin(), open_.end(), earlier);
  }
  std::vector<JitCode> finish() {
    advance(std::numeric_limits<std::uint64_t>::max());
    return std::move(owned_);
  }

 private:
  void advance(std::uint64_t until) {
    while (!open_.empty() && at_ < until) {
      const JitCode& latest = open_.front();
      const std::uint64_t end = std::min(end_of(latest), until);
      if (end > at_) own(end, latest.where);
      if (end_of(latest) > at_) break;  // `until` lies within it
      std::pop_heap(open_.begin(), open_.end(), earlier);
      open_.pop_back();
    }
    at_ = until;
  }
  void own(std::uint64_t end, std::uint32_t where) {
    const auto bytes = static_cast<std::uint32_t>(end - at_);
    const bool goes_on = !owned_.empty() && owned_.back().where == where && end_of(owned_.back()) == at_;
    if (goes_on) {
      owned_.back().bytes += bytes;
    } else {
      owned_.push_back({at_, bytes, where});
    }
    at_ = end;
  }

  std::uint64_t at_ = 0;
  std::vector<JitCode> open_;  // a heap, the latest in front; may hold some that have ended
  std::vector<JitCode> owned_;
};

// Drops the earliest, and an eighth more than it must, so that it is not done for each entry that comes. An entry goes
// with all its pieces: what later ones cut to many pieces must not break the bound.
std::size_t keep_latest(std::vector<JitCode>& codes, std::size_t most) {
  if (codes.size() <= most) return 0;
  std::vector<std::uint32_t> ages;
  ages.reserve(codes.size());
  for (const JitCode& code : codes) ages.push_back(code.where);
  const std::size_t drop = std::min(codes.size() - most + most / 8, codes.size()) - 1;
  std::nth_element(ages.begin(), ages.begin() + static_cast<std::ptrdiff_t>(drop), ages.end());
  return std::erase_if(codes, [&](const JitCode& code) { return code.where <= ages[drop]; });
}

}  // namespace

std::size_t JitTable::settle(std::size_t most) {
  if (pending_.empty()) return keep_latest(settled_, most);
  std::stable_sort(pending_.begin(), pending_.end(), starts_before);
  Sweep sweep(settled_.size() + pending_.size());
  auto settled = settled_.begin();
  for (const JitCode& code : pending_) {
    for (; settled != settled_.end() && settled->start <= code.start; ++settled) sweep.open(*settled);
    sweep.open(code);
  }
  std::for_each(settled, settled_.end(), [&](const JitCode& code) { sweep.open(code); });
  settled_ = sweep.finish();
  pending_ = std::vector<JitCode>();  // `= {}` would keep the memory
  const std::size_t dropped = keep_latest(settled_, most);
  if (settled_.capacity() > settled_.size() + settled_.size() / 4) settled_.shrink_to_fit();
  return dropped;
}

const JitCode* JitTable::find(std::uint64_t address) const {
  const auto next = std::upper_bound(settled_.begin(), settled_.end(), address,
                                     [](std::uint64_t value, const JitCode& code) { return value < code.start; });
  if (next == settled_.begin() || address >= end_of(*(next - 1))) return nullptr;
  return &*(next - 1);
}

const JitCode* JitTable::find_latest(std::uint64_t address) const {
  const auto holds = [&](const JitCode& code) { return address >= code.start && address < end_of(code); };
  const auto found = std::find_if(pending_.rbegin(), pending_.rend(), holds);
  return found != pending_.rend() ? &*found : find(address);
}

void JitTable::clear() {
  settled_ = std::vector<JitCode>();
  pending_ = std::vector<JitCode>();
}

}  // namespace spanfold::proc
