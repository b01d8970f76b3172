// SPDX-License-Identifier: Apache-2.0
#include "profile/stays.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

namespace spanfold::profile {
namespace {

// Pieces of one span in memory; beyond that, the closest become one.
constexpr std::size_t kMostPieces = 1024;

// That `after` follows `before` on what may be one thread.
struct Link {
  std::uint64_t gap_ns = 0;
  std::size_t before = 0, after = 0;
};

// Each piece, in order, follows the one that ends nearest before it and that none has followed yet.
std::vector<Link> find_links(const std::vector<StayPiece>& sorted) {
  std::vector<Link> links;
  std::set<std::pair<std::uint64_t, std::size_t>> ends;
  for (std::size_t at = 0; at < sorted.size(); ++at) {
    const std::uint64_t begin = sorted[at].begin_unix_nano;
    auto after = ends.upper_bound({begin, std::numeric_limits<std::size_t>::max()});
    if (after != ends.begin()) {
      const auto nearest = std::prev(after);
      links.push_back({.gap_ns = begin - nearest->first, .before = nearest->second, .after = at});
      ends.erase(nearest);
    }
    ends.emplace(sorted[at].end_unix_nano, at);
  }
  return links;
}

// What `links` join becomes one; sorted again. No piece follows, or is followed by, more than one.
std::vector<StayPiece> join(const std::vector<StayPiece>& sorted, const std::vector<Link>& links) {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> before(sorted.size(), kNone);
  for (const Link& link : links) before[link.after] = link.before;
  std::vector<std::size_t> places(sorted.size());  // in `joined`
  std::vector<StayPiece> joined;
  for (std::size_t at = 0; at < sorted.size(); ++at) {
    if (before[at] == kNone) {
      places[at] = joined.size();
      joined.push_back(sorted[at]);
      continue;
    }
    places[at] = places[before[at]];
    StayPiece& whole = joined[places[at]];
    whole.end_unix_nano = sorted[at].end_unix_nano;
    whole.length_ns += sorted[at].length_ns;
  }
  std::sort(joined.begin(), joined.end());
  return joined;
}

bool ends_before(const StayPiece& left, const StayPiece& right) {
  return std::tuple(left.end_unix_nano, left.begin_unix_nano + left.length_ns, left.begin_unix_nano) <
         std::tuple(right.end_unix_nano, right.begin_unix_nano + right.length_ns, right.begin_unix_nano);
}

// Joins those with the smallest gaps until `most` are left, or until all overlap; not the one that ends last.
void join_nearest(std::vector<StayPiece>& sorted, std::size_t most) {
  while (sorted.size() > most) {
    const auto last =
        static_cast<std::size_t>(std::max_element(sorted.begin(), sorted.end(), ends_before) - sorted.begin());
    std::vector<Link> links = find_links(sorted);
    std::erase_if(links, [last](const Link& link) { return link.after == last; });
    if (links.empty()) return;
    std::sort(links.begin(), links.end(), [](const Link& left, const Link& right) {
      return std::tie(left.gap_ns, left.after) < std::tie(right.gap_ns, right.after);
    });
    links.resize(std::min(links.size(), sorted.size() - most));
    sorted = join(sorted, links);
  }
}

// For pieces that all overlap: the shortest become one, whose length may then be more than what it lasts.
void squeeze(std::vector<StayPiece>& pieces, std::size_t most) {
  if (pieces.size() <= most) return;
  std::iter_swap(std::max_element(pieces.begin(), pieces.end(), ends_before), std::prev(pieces.end()));
  std::sort(pieces.begin(), std::prev(pieces.end()), [](const StayPiece& left, const StayPiece& right) {
    return std::tie(left.length_ns, left) < std::tie(right.length_ns, right);
  });
  const auto kept = pieces.begin() + static_cast<std::ptrdiff_t>(pieces.size() - most);
  for (auto piece = pieces.begin(); piece != kept; ++piece) {
    kept->begin_unix_nano = std::min(kept->begin_unix_nano, piece->begin_unix_nano);
    kept->end_unix_nano = std::max(kept->end_unix_nano, piece->end_unix_nano);
    kept->length_ns += piece->length_ns;
  }
  pieces.erase(pieces.begin(), kept);
}

}  // namespace

std::vector<StayPiece> join_close(std::vector<StayPiece> pieces) {
  if (pieces.size() < 2) return pieces;
  std::sort(pieces.begin(), pieces.end());
  std::vector<Link> links = find_links(pieces);
  std::erase_if(links, [&pieces](const Link& link) {
    return link.gap_ns > kLingerNs && pieces[link.after].length_ns != kEndMarkNs;
  });
  return links.empty() ? pieces : join(pieces, links);
}

void Stays::add(StayPiece piece) {
  piece.begin_unix_nano = std::min(piece.begin_unix_nano, std::numeric_limits<std::uint64_t>::max() - 1);
  piece.end_unix_nano = std::max(piece.end_unix_nano, piece.begin_unix_nano + 1);
  piece.length_ns = std::clamp<std::uint64_t>(piece.length_ns, 1, piece.end_unix_nano - piece.begin_unix_nano);
  if (first_.length_ns == 0) {
    first_ = piece;
    return;
  }
  if (!more_) more_ = std::make_unique<std::vector<StayPiece>>();
  more_->push_back(piece);
  if (more_->size() < kMostPieces) return;
  std::vector<StayPiece> fewer = join_close(pieces());
  join_nearest(fewer, kMostPieces / 2);
  squeeze(fewer, kMostPieces / 2);
  first_ = fewer.front();
  more_->assign(fewer.begin() + 1, fewer.end());
}

std::vector<StayPiece> Stays::pieces() const {
  std::vector<StayPiece> all;
  if (first_.length_ns != 0) all.push_back(first_);
  if (more_) all.insert(all.end(), more_->begin(), more_->end());
  return all;
}

std::vector<Stay> Stays::list(std::size_t max) const {
  std::vector<StayPiece> stays = join_close(pieces());
  if (stays.empty()) return {};
  const StayPiece last = *std::max_element(stays.begin(), stays.end(), ends_before);
  const std::uint64_t short_ns =
      last.end_unix_nano - std::min(last.begin_unix_nano + last.length_ns, last.end_unix_nano);
  const bool marked = short_ns > kUnmarkedNs && last.length_ns > kEndMarkNs;
  const std::size_t most = max - (marked ? 1 : 0);
  join_nearest(stays, most);
  squeeze(stays, most);
  std::vector<Stay> listed;
  listed.reserve(stays.size() + (marked ? 1 : 0));
  for (const StayPiece& stay : stays) listed.push_back({stay.begin_unix_nano, stay.length_ns});
  if (marked) {
    const Stay whole = {last.begin_unix_nano, last.length_ns};
    std::find(listed.begin(), listed.end(), whole)->length_ns -= kEndMarkNs;
    listed.push_back({last.end_unix_nano - kEndMarkNs, kEndMarkNs});
  }
  std::sort(listed.begin(), listed.end());
  return listed;
}

}  // namespace spanfold::profile
