// SPDX-License-Identifier: Apache-2.0
// Names on their way out: valid UTF-8 for any bytes, and the bytes back.
#include "profile/text.h"

#include "fuzz/fuzz.h"
#include "fuzz/json.h"
#include "report/json_writer.h"
#include "report/render.h"
#include "report/terminal.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spanfold;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string text = profile::to_valid_utf8(bytes, 4 * size + 32);
  fuzz::check(fuzz::is_utf8(text), "what is written is UTF-8");
  fuzz::check(profile::restore_bytes(text) == bytes, "the bytes come back");
  const std::string cut = profile::to_valid_utf8(bytes, 48);
  fuzz::check(fuzz::is_utf8(cut) && cut.size() <= 48, "so it is where it is cut");
  const std::string folded = report::folded_frame(text);
  fuzz::check(fuzz::is_utf8(folded) && folded.find_first_of(";\n\r") == std::string::npos, "a folded frame is one");
  fuzz::check(profile::restore_bytes(folded) == bytes, "the bytes come back from it");
  fuzz::check(fuzz::is_utf8(report::folded_frame(bytes)), "also of what is no UTF-8");
  for (const std::string_view name : {bytes, std::string_view(text)}) {
    const std::string shown = report::printable(name);
    fuzz::check(fuzz::is_utf8(shown) && fuzz::is_tame(shown), "a terminal obeys nothing of it");
    for (const std::size_t width : {0UL, 1UL, 7UL}) {
      const std::string fitted = report::fit(shown, width);
      fuzz::check(fuzz::is_utf8(fitted), "it is not cut within a rune");
      fuzz::check(width == 0 || report::columns(fitted) <= width, "it fits");
    }
    std::string json;
    report::JsonWriter(json).begin_object().key(name).value(name).end_object();
    fuzz::check(fuzz::is_json(json), "it can stand in JSON");
  }
  return 0;
}
