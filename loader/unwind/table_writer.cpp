// SPDX-License-Identifier: Apache-2.0
#include "unwind/table_writer.h"

#include <utility>

#include "unwind/state.h"

namespace spanfold::unwind {
namespace {

std::size_t spread(const Rule& rule) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  const auto wide = [](std::int32_t number) { return std::uint64_t{static_cast<std::uint32_t>(number)}; };
  std::uint64_t mixed = static_cast<std::uint64_t>(rule.cfa) | static_cast<std::uint64_t>(rule.frame_pointer) << 8 |
                        static_cast<std::uint64_t>(rule.return_address) << 16 | std::uint64_t{rule.reg} << 24 |
                        wide(rule.offset) << 32;
  mixed = (mixed ^ mixed >> 32) * kOdd + wide(rule.fp_offset);
  mixed = (mixed ^ mixed >> 32) * kOdd + (wide(rule.slot) | wide(rule.ra_offset) << 32);
  return static_cast<std::size_t>(mixed * kOdd >> 32);
}

}  // namespace

TableWriter::TableWriter(std::uint64_t base) {
  table_.base = base;
  table_.rules.emplace_back();
  ids_.emplace(Rule{}, 0);
}

std::uint32_t TableWriter::id_of(const Rule& rule) {
  Known& known = recent_[spread(rule) % kRecent];
  if (known.rule == rule) return known.id;  // an unused one is kNone, whose id is 0
  const auto next = static_cast<std::uint32_t>(table_.rules.size());
  // Room is kept for kUnsupported itself.
  if (next >= kMostRules - 1 && !ids_.contains(rule) && rule != kUnsupportedRule) return id_of(kUnsupportedRule);
  const auto [place, is_new] = ids_.emplace(rule, next);
  if (is_new) table_.rules.push_back(rule);
  if (rule == kUnsupportedRule) unsupported_ = place->second;
  known = {rule, place->second};
  return place->second;
}

bool TableWriter::put(std::uint32_t start, const Rule& rule) {
  if (table_.rows.size() >= kMostRows - 1) return false;
  write(start, id_of(rule));
  return true;
}

void TableWriter::write(std::uint32_t start, std::uint32_t id) {
  std::vector<Row>& rows = table_.rows;
  const auto is_unsupported = [&](const Row& row) { return row.rule != 0 && row.rule == unsupported_; };
  if (!rows.empty() && rows.back().start == start) {
    if (is_unsupported(rows.back())) --table_.unsupported_rows;
    rows.pop_back();
  }
  if (rows.empty() ? id == 0 : rows.back().rule == id) return;
  rows.push_back({start, id});
  if (is_unsupported(rows.back())) ++table_.unsupported_rows;
}

Table TableWriter::finish(std::uint32_t start) && {
  write(start, 0);
  table_.rows.shrink_to_fit();
  return std::move(table_);
}

}  // namespace spanfold::unwind
