// SPDX-License-Identifier: Apache-2.0
#include "bpf/unwind_store.h"

#include <bpf/bpf.h>
#include <fcntl.h>

#include <algorithm>
#include <atomic>

#include "bpf/abi.h"

namespace spanfold::bpf {
namespace {

constexpr std::uint32_t kBucketBytes = 1U << SF_BUCKET_SHIFT;
// A part takes at most this, so that a chunk holds some and gaps between them can be used.
constexpr std::uint32_t kMostWords = SF_CHUNK_WORDS / 4;

static_assert(static_cast<int>(Cfa::kSignal) == SF_CFA_SIGNAL);
static_assert(static_cast<int>(Cfa::kPlt) == SF_CFA_PLT);
static_assert(static_cast<int>(SavedFramePointer::kUndefined) == SF_FP_UNDEFINED);
static_assert(int{UnwindRule::kSwitches} == SF_RULE_SWITCHES && int{UnwindRule::kInterrupted} == SF_RULE_INTERRUPTED);
static_assert(static_cast<int>(ReturnAddress::kInRegister) == SF_RETURN_IN_REGISTER);
static_assert(static_cast<int>(UnwindRange::Kind::kUprobes) == SF_RANGE_UPROBES);

sf_rule as_abi(const UnwindRule& rule) {
  return {.cfa = static_cast<__u8>(rule.cfa),
          .fp = static_cast<__u8>(rule.frame_pointer),
          .ra = static_cast<__u8>(rule.return_address),
          .reg = rule.reg,
          .offset = rule.offset,
          .slot = rule.slot,
          .fp_offset = rule.fp_offset,
          .ra_offset = rule.ra_offset,
          .pad = 0};
}

sf_process as_abi(const ProcessKey& key) {
  return {.start_ns = key.start_boottime_ns, .tgid = key.pid, .exec_id = key.exec_id};
}

// Ordered after all that was written before, for programs on other CPUs.
void publish(__u32& word, std::uint32_t value) { std::atomic_ref<__u32>(word).store(value, std::memory_order_release); }

// Rows whose text lies in [first, last) buckets of `begin`, words they take with their index.
std::uint32_t words_of(std::uint64_t bytes, std::size_t rows) {
  const std::uint64_t buckets = (bytes + kBucketBytes - 1) / kBucketBytes;
  return static_cast<std::uint32_t>(buckets + 1 + rows);
}

}  // namespace

UnwindStore::UnwindStore() = default;
UnwindStore::UnwindStore(UnwindStore&& other) noexcept = default;
UnwindStore& UnwindStore::operator=(UnwindStore&& other) noexcept = default;
UnwindStore::~UnwindStore() = default;

Result<UnwindStore> UnwindStore::open(const Maps& maps) {
  UnwindStore store;
  store.spaces_fd_.reset(::fcntl(maps.spaces, F_DUPFD_CLOEXEC, 0));
  auto ranges = SharedArray<sf_range>::map(maps.ranges, maps.range_count);
  if (!ranges) return ranges.error();
  auto sections = SharedArray<sf_section>::map(maps.sections, SF_SECTIONS);
  if (!sections) return sections.error();
  auto chunks = SharedArray<sf_chunk>::map(maps.chunks, maps.chunk_count);
  if (!chunks) return chunks.error();
  auto rules = SharedArray<sf_rule>::map(maps.rules, SF_RULES);
  if (!rules) return rules.error();
  store.ranges_ = *std::move(ranges);
  store.sections_ = *std::move(sections);
  store.chunks_ = *std::move(chunks);
  store.rules_ = *std::move(rules);
  store.free_ranges_ = Extents(maps.range_count);
  store.free_sections_ = Extents(SF_SECTIONS);
  store.free_words_.assign(maps.chunk_count, Extents(SF_CHUNK_WORDS));
  store.rule_id({.cfa = Cfa::kNone});
  store.rule_id(kFramePointerRule);
  store.rule_id({.cfa = Cfa::kUnsupported});
  return store;
}

std::uint32_t UnwindStore::rule_id(UnwindRule rule) {
  if (rule.cfa <= Cfa::kUnsupported) rule = {.cfa = rule.cfa};  // the rest of it means nothing
  const auto known = rule_ids_.find(rule);
  if (known != rule_ids_.end()) return known->second;
  if (rule_ids_.size() >= SF_RULES) {
    ++rules_left_out_;
    return rule_ids_.at({.cfa = Cfa::kUnsupported});
  }
  const auto id = static_cast<std::uint32_t>(rule_ids_.size());
  rules_[id] = as_abi(rule);
  rule_ids_.emplace(rule, id);
  return id;
}

std::optional<UnwindStore::Place> UnwindStore::take_words(std::uint32_t words) {
  for (std::uint32_t chunk = 0; chunk < free_words_.size(); ++chunk) {
    if (const auto word = free_words_[chunk].take(words)) return Place{chunk, *word, words};
  }
  return {};
}

// `first`: the first row that begins behind `begin`; the one before it holds there.
std::optional<UnwindSection> UnwindStore::add_part(const UnwindTable& table, std::span<const std::uint32_t> ids,
                                                   std::size_t first, std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t offset = begin - table.base;
  const auto row_word = [&](std::size_t row, std::uint64_t text) {
    return ids[table.rows[row].rule] << SF_ROW_RULE_SHIFT | static_cast<std::uint32_t>(text % kBucketBytes);
  };
  std::size_t last = first;
  while (last < table.rows.size() && table.base + table.rows[last].start < end) ++last;
  const std::size_t carried = first > 0 ? 1 : 0;
  const std::uint32_t buckets = words_of(end - begin, 0) - 1;
  const auto place = take_words(words_of(end - begin, last - first + carried));
  const auto number = place ? free_sections_.take(1) : std::nullopt;
  if (!number) {
    if (place) free_words_[place->chunk].give_back(place->word, place->words);
    return {};
  }
  const std::span<__u32> words = std::span(chunks_[place->chunk].words).subspan(place->word, place->words);
  std::size_t at = buckets + 1;
  if (carried > 0) words[at++] = row_word(first - 1, 0);
  std::uint32_t bucket = 0;
  words[0] = 0;
  for (std::size_t row = first; row < last; ++row) {
    const std::uint64_t text = table.rows[row].start - offset;
    while (bucket < text / kBucketBytes) words[++bucket] = static_cast<__u32>(at - buckets - 1);
    words[at++] = row_word(row, text);
  }
  while (bucket < buckets) words[++bucket] = static_cast<__u32>(at - buckets - 1);

  sf_section& section = sections_[*number];
  section.chunk = place->chunk;
  section.index = place->word;
  section.rows = place->word + buckets + 1;
  section.buckets = buckets;
  if (++serial_ == 0) ++serial_;
  publish(section.serial, serial_);
  places_[*number] = *place;
  return UnwindSection{*number, serial_, begin, end};
}

std::optional<std::vector<UnwindSection>> UnwindStore::add(const UnwindTable& table) {
  std::vector<std::uint32_t> ids;
  ids.reserve(table.rules.size());
  for (const UnwindRule& rule : table.rules) ids.push_back(rule_id(rule));
  std::vector<UnwindSection> parts;
  std::size_t row = 0;
  while (row + 1 < table.rows.size()) {
    // As many rows as fit, up to the beginning of a bucket.
    const std::uint64_t begin = parts.empty() ? table.rows[0].start : parts.back().end - table.base;
    const std::uint64_t stop = table.rows.back().start;
    std::size_t next = row;
    std::uint64_t end = begin;
    while (end < stop) {
      std::uint64_t wider = std::min(end + kBucketBytes, stop);
      // Text without rows in one go.
      if (next < table.rows.size() && table.rows[next].start >= wider) {
        const std::uint64_t empty = (table.rows[next].start - begin) / kBucketBytes * kBucketBytes + begin;
        wider = std::min({std::max(empty, wider), begin + std::uint64_t{kMostWords / 2} * kBucketBytes, stop});
      }
      std::size_t more = next;
      while (more < table.rows.size() && table.rows[more].start < wider) ++more;
      if (words_of(wider - begin, more - row + 1) > kMostWords && end > begin) break;
      next = more;
      if (wider == end) break;
      end = wider;
    }
    if (end == begin) break;
    const auto part = add_part(table, ids, row, table.base + begin, table.base + end);
    if (!part) {
      remove(parts);
      return {};
    }
    parts.push_back(*part);
    row = next;
  }
  return parts;
}

void UnwindStore::remove(std::span<const UnwindSection> sections) {
  for (const UnwindSection& section : sections) {
    const auto place = places_.find(section.number);
    if (place == places_.end() || sections_[section.number].serial != section.serial) continue;
    publish(sections_[section.number].serial, 0);
    free_words_[place->second.chunk].give_back(place->second.word, place->second.words);
    free_sections_.give_back(section.number, 1);
    places_.erase(place);
  }
}

bool UnwindStore::set_space(const ProcessKey& process, std::span<const UnwindRange> ranges) {
  const auto count = static_cast<std::uint32_t>(ranges.size());
  const auto first = free_ranges_.take(count);
  if (!first) return false;
  for (std::uint32_t i = 0; i < count; ++i) {
    const UnwindRange& range = ranges[i];
    constexpr std::uint64_t kMostBytes = ~__u32{0};
    ranges_[*first + i] = {.start = range.start,
                           .bytes = static_cast<__u32>(std::min(range.bytes, kMostBytes)),
                           .text = range.text,
                           .section = range.section,
                           .serial = range.serial,
                           .kind = static_cast<__u32>(range.kind),
                           .pad = 0};
  }
  if (++generation_ == 0) ++generation_;
  const sf_process key = as_abi(process);
  const sf_space space{.process = key, .generation = generation_, .first = *first, .count = count, .pad = 0};
  const bool set = bpf_map_update_elem(spaces_fd_.get(), &key, &space, BPF_ANY) == 0;
  const auto old = spaces_.find(process);
  if (!set) {
    free_ranges_.give_back(*first, count);
    return false;
  }
  if (old != spaces_.end()) free_ranges_.give_back(old->second.first, old->second.count);
  spaces_[process] = {*first, count};
  step_version();
  return true;
}

void UnwindStore::remove_space(const ProcessKey& process) {
  const auto old = spaces_.find(process);
  if (old == spaces_.end()) return;
  const sf_process key = as_abi(process);
  bpf_map_delete_elem(spaces_fd_.get(), &key);
  step_version();
  free_ranges_.give_back(old->second.first, old->second.count);
  spaces_.erase(old);
}

void UnwindStore::step_version() {
  if (version_ != nullptr) std::atomic_ref<std::uint32_t>(*version_).fetch_add(1);
}

void UnwindStore::before_grace() {
  for (Extents& words : free_words_) words.mark();
  free_ranges_.mark();
  free_sections_.mark();
}

void UnwindStore::after_grace() {
  for (Extents& words : free_words_) words.settle();
  free_ranges_.settle();
  free_sections_.settle();
}

std::size_t UnwindStore::free_bytes() const {
  std::size_t words = 0;
  for (const Extents& chunk : free_words_) words += chunk.free_items();
  return words * sizeof(__u32);
}

}  // namespace spanfold::bpf
