// SPDX-License-Identifier: Apache-2.0
// A file of OTLP profiles, through all that report makes of it. The first byte chooses the question.
#include <charconv>

#include "fuzz/json.h"
#include "report/decode.h"
#include "report/group.h"
#include "report/render.h"

namespace {

using namespace spanfold;

report::Query query_of(std::uint8_t choice) {
  report::Query query;
  query.by = static_cast<report::By>(choice % 6);
  query.kinds.assign(report::kKinds.begin(), report::kKinds.end());
  query.top = (choice & 0x80) != 0 ? 2 : ~std::size_t{0};
  if ((choice & 0x40) != 0) query.spans.push_back({});
  return query;
}

// Frames, a space, a count.
void check_folded(std::string_view text) {
  fuzz::check(fuzz::is_utf8(text), "folded stacks are UTF-8");
  while (!text.empty()) {
    const std::size_t newline = text.find('\n');
    fuzz::check(newline != std::string_view::npos, "a line ends");
    const std::string_view line = text.substr(0, newline);
    const std::size_t space = line.rfind(' ');
    fuzz::check(space != std::string_view::npos && space + 1 < line.size(), "a line has a count");
    fuzz::check(line.substr(space + 1).find_first_not_of("0123456789") == std::string_view::npos, "it is a number");
    text.remove_prefix(newline + 1);
  }
}

void check_text(std::string_view text) {
  while (!text.empty()) {
    const std::size_t newline = text.find('\n');
    fuzz::check(newline != std::string_view::npos && fuzz::is_tame(text.substr(0, newline)), "text is tame");
    text.remove_prefix(newline + 1);
  }
}

void check_answer(const report::Recording& recording, const report::Query& query) {
  const report::Answer found = report::answer(recording, query);
  fuzz::check(found.rows.size() <= query.top, "no more rows than were asked for");
  for (std::size_t i = 1; i < found.rows.size(); ++i) {
    const auto& before = report::sum(found.rows[i - 1].cost);
    fuzz::check(!report::costlier(report::sum(found.rows[i].cost), before), "rows are in order");
  }
  fuzz::check(fuzz::is_json(report::render_json(recording, found)), "JSON is JSON");
  check_folded(report::render_folded(recording, found));
  check_text(report::render_text(recording, found, {}));
  check_text(report::render_text(recording, found, {.width = 40}));
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const auto choice = input.take<std::uint8_t>();
  report::Recording recording;
  const auto decoded = report::decode(input.rest(), "file", false, recording);
  fuzz::check(recording.stack_frame_count() <= (1UL << 20) + 64 * size, "frames are bounded by the file");
  report::Recording torn_recording;
  const auto torn = report::decode(input.rest(), "file", true, torn_recording);
  fuzz::check(!decoded || (torn && torn->torn_bytes == 0), "a whole file is not torn");
  fuzz::check(!torn || torn->torn_bytes <= size, "what is torn off was there");
  if (decoded) check_answer(recording, query_of(choice));
  if (torn && !decoded) check_answer(torn_recording, query_of(choice));
  return 0;
}
