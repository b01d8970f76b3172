// SPDX-License-Identifier: Apache-2.0
// Which pieces are one stay, and what is listed of many.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "profile/stays.h"

namespace spanfold::profile {
namespace {

using Pieces = std::vector<StayPiece>;
using List = std::vector<Stay>;

constexpr std::uint64_t kBase = 1'700'000'000'000'000'000;
constexpr std::uint64_t kFar = 10 * kLingerNs;

// On the thread all the time.
StayPiece piece(std::uint64_t begin, std::uint64_t end) { return {kBase + begin, kBase + end, end - begin}; }
Stay stay(std::uint64_t begin, std::uint64_t length) { return {kBase + begin, length}; }

List list_of(const Pieces& pieces, std::size_t max = kMaxStays) {
  Stays stays;
  for (const StayPiece& each : pieces) stays.add(each);
  return stays.list(max);
}

std::uint64_t total(const List& list) {
  std::uint64_t sum = 0;
  for (const Stay& each : list) sum += each.length_ns;
  return sum;
}

std::uint64_t end_of(const List& list) {
  std::uint64_t end = 0;
  for (const Stay& each : list) end = std::max(end, each.begin_unix_nano + each.length_ns);
  return end;
}

// By the words of the header: each piece in order looks at all before it.
Pieces naive_join(Pieces pieces) {
  std::sort(pieces.begin(), pieces.end());
  Pieces chains;
  std::vector<std::size_t> last_pieces;  // of the chains
  std::vector<std::size_t> followed(pieces.size(), 0);
  std::vector<std::size_t> chain_of(pieces.size());
  for (std::size_t at = 0; at < pieces.size(); ++at) {
    const StayPiece& next = pieces[at];
    std::size_t nearest = at;
    for (std::size_t before = 0; before < at; ++before) {
      if (followed[before] != 0 || pieces[before].end_unix_nano > next.begin_unix_nano) continue;
      if (nearest == at || pieces[before].end_unix_nano >= pieces[nearest].end_unix_nano) nearest = before;
    }
    if (nearest != at) followed[nearest] = 1;
    const bool close = nearest != at && (next.begin_unix_nano - pieces[nearest].end_unix_nano <= kLingerNs ||
                                         next.length_ns == kEndMarkNs);
    if (!close) {
      chain_of[at] = chains.size();
      chains.push_back(next);
      continue;
    }
    chain_of[at] = chain_of[nearest];
    chains[chain_of[at]].end_unix_nano = next.end_unix_nano;
    chains[chain_of[at]].length_ns += next.length_ns;
  }
  std::sort(chains.begin(), chains.end());
  return chains;
}

Pieces random_pieces(std::mt19937& random) {
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  Pieces pieces;
  const std::uint64_t threads = 1 + below(4);
  for (std::uint64_t thread = 0; thread < threads; ++thread) {
    std::uint64_t now = below(5 * kLingerNs);
    for (std::uint64_t left = below(below(4) == 0 ? 120 : 6); left > 0; --left) {
      const std::uint64_t lasts = 1 + below(3 * kLingerNs);
      const std::uint64_t length = below(3) == 0 ? 1 + below(lasts) : lasts;
      pieces.push_back({kBase + now, kBase + now + lasts, length});
      now += lasts + (below(3) == 0 ? 0 : below(4 * kLingerNs));
    }
  }
  std::shuffle(pieces.begin(), pieces.end(), random);
  return pieces;
}

}  // namespace

TEST_CASE("close stays are one, the gap does not count") {
  CHECK(list_of({}).empty());
  CHECK(list_of({piece(10, 30)}) == List{stay(10, 20)});
  CHECK(list_of({piece(30, 50), piece(10, 30)}) == List{stay(10, 40)});  // cut at a flush
  CHECK(list_of({piece(0, 10), piece(10 + kLingerNs + 1, 30 + kLingerNs)}).size() == 2);
  // begin + length falls short of the end: the mark says where that is.
  CHECK(list_of({piece(0, 10), piece(10 + kLingerNs, 30 + kLingerNs)}) == List{stay(0, 29), stay(29 + kLingerNs, 1)});
  CHECK(list_of({{kBase, kBase + 9000, 300}}) == List{stay(0, 299), stay(8999, 1)});
  CHECK(list_of({{kBase, kBase + 300 + kUnmarkedNs, 300}}) == List{stay(0, 300)});
  // Only that of the last one matters.
  CHECK(list_of({{kBase, kBase + 9000, 300}, piece(kFar, kFar + 5)}) == List{stay(0, 300), stay(kFar, 5)});
}

TEST_CASE("stays of several threads stay apart, each with what follows it") {
  CHECK(list_of({piece(0, 100), piece(50, 150)}) == List{stay(0, 100), stay(50, 100)});
  CHECK(list_of({piece(0, 100), piece(50, 100), piece(100, 200), piece(100, 150)}) ==
        List{stay(0, 200), stay(50, 100)});
}

TEST_CASE("a piece has at least 1 ns, and no more than what it lasts") {
  CHECK(list_of({{kBase + 7, kBase + 7, 0}}) == List{stay(7, 1)});
  CHECK(list_of({{kBase + 7, kBase + 3, 9}}) == List{stay(7, 1)});
  CHECK(list_of({{kBase, kBase + 10, 99}}) == List{stay(0, 10)});
  CHECK(list_of({{UINT64_MAX, UINT64_MAX, 0}}) == List{{UINT64_MAX - 1, 1}});
}

TEST_CASE("the mark of a list leads back to one stay") {
  const List list = list_of({{kBase, kBase + 50 * kLingerNs, 300}});
  REQUIRE(list.size() == 2);
  Pieces pieces;
  for (const Stay& each : list) {
    pieces.push_back({each.begin_unix_nano, each.begin_unix_nano + each.length_ns, each.length_ns});
  }
  CHECK(join_close(pieces) == Pieces{{kBase, kBase + 50 * kLingerNs, 300}});
  // And what goes on behind a flush still does.
  pieces.push_back(piece(50 * kLingerNs, 51 * kLingerNs));
  CHECK(join_close(pieces).size() == 1);
}

TEST_CASE("of too many stays the nearest become one, but not the last") {
  Pieces pieces;
  std::uint64_t now = 0;
  for (std::uint64_t at = 0; at < 66; ++at) {
    pieces.push_back(piece(now, now + 5));
    now += 5 + kFar + (at == 64 ? 0 : 100 - at);  // the smallest gap is before the last
  }
  const List list = list_of(pieces);
  REQUIRE(list.size() == kMaxStays);
  CHECK(list.back() == Stay{pieces.back().begin_unix_nano, 5});
  CHECK(list[62].length_ns == 15);  // 62, 63 and 64, which have the smallest gaps of the rest
  CHECK(total(list) == 66 * 5);
}

TEST_CASE("more than 64 at once: the shortest share one place") {
  Pieces pieces;
  for (std::uint64_t at = 0; at < 100; ++at) pieces.push_back(piece(at, 1000 + (at == 50 ? 500 : 0)));
  const List list = list_of(pieces);
  CHECK(list.size() == kMaxStays);
  CHECK(std::find(list.begin(), list.end(), stay(50, 1450)) != list.end());
  std::uint64_t expected = 0;
  for (const StayPiece& each : pieces) expected += each.length_ns;
  CHECK(total(list) == expected);
}

TEST_CASE("memory of one span is bounded, and nothing of its time is lost") {
  Stays stays;
  std::uint64_t expected = 0;
  for (std::uint64_t at = 0; at < 20'000; ++at) {
    stays.add(piece(2 * at * kFar, 2 * at * kFar + 7));
    expected += 7;
  }
  const List list = stays.list();
  CHECK(list.size() <= kMaxStays);
  CHECK(total(list) == expected);
  CHECK(list.front().begin_unix_nano == kBase);
  CHECK(end_of(list) == kBase + 2 * 19'999 * kFar + 7);
}

TEST_CASE("any pieces: as a naive model joins them, sorted, at most so many, the same total, begin and end") {
  std::mt19937 random(17);
  for (int round = 0; round < 3000; ++round) {
    const Pieces pieces = random_pieces(random);
    const Pieces joined = naive_join(pieces);
    REQUIRE(join_close(pieces) == joined);
    std::uint64_t sum = 0, begin = UINT64_MAX, end = 0;
    for (const StayPiece& each : pieces) {
      sum += each.length_ns;
      begin = std::min(begin, each.begin_unix_nano);
      end = std::max(end, each.end_unix_nano);
    }
    const std::size_t max = round % 2 == 0 ? kMaxStays : 5 + random() % 20;  // 4 threads at once, and a mark
    const List list = list_of(pieces, max);
    REQUIRE(list.size() <= max);
    REQUIRE(std::is_sorted(list.begin(), list.end()));
    REQUIRE(total(list) == sum);
    if (pieces.empty()) continue;
    REQUIRE(list.front().begin_unix_nano == begin);
    // Where the last piece is no longer than its mark would be, there is none.
    const auto last = std::max_element(joined.begin(), joined.end(), [](const StayPiece& a, const StayPiece& b) {
      return a.end_unix_nano < b.end_unix_nano;
    });
    if (last->length_ns > kEndMarkNs) REQUIRE(end_of(list) + kUnmarkedNs >= end);
    REQUIRE(end_of(list) <= end);
    if (joined.size() < max) REQUIRE(list.size() - joined.size() <= 1);
    Pieces shuffled = pieces;
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    REQUIRE(list_of(shuffled, max) == list);
  }
}

}  // namespace spanfold::profile
