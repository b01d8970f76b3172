// SPDX-License-Identifier: Apache-2.0
#include "profile/span_times.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "profile/stays.h"

namespace spanfold::profile {
namespace {

bool is_listed(const SpanTime& time) {
  return time.stays.size() <= kMaxStays && std::is_sorted(time.stays.begin(), time.stays.end());
}

std::uint64_t end_of(const SpanTime& time) {
  std::uint64_t end = 0;
  for (const Stay& stay : time.stays) end = std::max(end, stay.begin_unix_nano + stay.length_ns);
  return end;
}

// Times of one span; the one that goes on for longest knows whether it ended.
template <typename Iterator>
SpanTime combine(Iterator first, Iterator last) {
  SpanTime whole{.span = (*first)->span, .ended = (*first)->ended, .stays = {}};
  std::uint64_t end = 0;
  Stays stays;
  for (; first != last; ++first) {
    const SpanTime& time = **first;
    const std::uint64_t its_end = end_of(time);
    if (its_end > end) whole.ended = time.ended;
    if (its_end == end) whole.ended &= time.ended;
    end = std::max(end, its_end);
    for (const Stay& stay : time.stays) {
      stays.add({stay.begin_unix_nano, stay.begin_unix_nano + stay.length_ns, stay.length_ns});
    }
  }
  whole.stays = stays.list();
  return whole;
}

}  // namespace

bool has_stays(const SpanTime& time) { return time.span.valid() && !time.stays.empty(); }

void arrange(std::vector<const SpanTime*>& times, std::deque<SpanTime>& made) {
  std::sort(times.begin(), times.end(),
            [](const SpanTime* left, const SpanTime* right) { return left->span < right->span; });
  auto kept = times.begin();
  for (auto first = times.begin(); first != times.end();) {
    const auto next =
        std::find_if(first, times.end(), [&](const SpanTime* time) { return time->span != (*first)->span; });
    const bool good = std::next(first) == next && is_listed(**first);
    *kept++ = good ? *first : &made.emplace_back(combine(first, next));
    first = next;
  }
  times.erase(kept, times.end());
}

Stay cut_at(const Window& window, Stay stay) {
  const std::uint64_t start = window.start_unix_nano;
  const std::uint64_t end = start + written_duration_ns(window);
  const std::uint64_t begin = std::clamp(stay.begin_unix_nano, start, end - 1);
  const std::uint64_t stay_end = stay.begin_unix_nano + std::min(stay.length_ns, UINT64_MAX - stay.begin_unix_nano);
  return {.begin_unix_nano = begin, .length_ns = std::clamp(stay_end, begin + 1, end) - begin};
}

std::uint64_t written_duration_ns(const Window& window) { return std::max<std::uint64_t>(window.duration_ns, 1); }

}  // namespace spanfold::profile
