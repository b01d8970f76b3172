// SPDX-License-Identifier: Apache-2.0
#include "proc/line_wire.h"

#include <algorithm>
#include <cstring>

namespace spanfold::proc {
namespace {

void put_number(std::string& bytes, std::size_t value) {
  const auto number = static_cast<std::uint32_t>(value);
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void put_text(std::string& bytes, std::string_view text) {
  text = text.substr(0, kMostLineTextBytes);
  put_number(bytes, text.size());
  bytes += text;
}

std::string encode(const RawLines& lines) {
  std::string bytes;
  const std::size_t count = std::min(lines.size(), kMostInlined);
  put_number(bytes, count);
  for (const RawLine& line : std::span(lines).first(count)) {
    put_text(bytes, line.function);
    put_text(bytes, line.file);
    put_number(bytes, line.line);
  }
  return bytes;
}

// Gives nothing more once something was wrong.
class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : rest_(bytes) {}

  std::uint32_t number(std::size_t most) {
    std::uint32_t value = 0;
    if (rest_.size() < sizeof value) return fail();
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value <= most ? value : fail();
  }
  std::string text() {
    const std::size_t bytes = number(kMostLineTextBytes);
    if (bytes > rest_.size()) fail();
    const std::string_view found = rest_.substr(0, bytes);
    rest_.remove_prefix(found.size());
    return std::string(found);
  }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }

 private:
  std::uint32_t fail() {
    good_ = false;
    rest_ = {};
    return 0;
  }

  std::string_view rest_;
  bool good_ = true;
};

}  // namespace

std::string encode_lines(const std::vector<RawLines>& answer) {
  const std::string nothing = encode({});
  std::string bytes;
  for (std::size_t i = 0; i < answer.size(); ++i) {
    const std::string lines = encode(answer[i]);
    const std::size_t needed_for_the_rest = (answer.size() - i - 1) * nothing.size();
    bytes += bytes.size() + lines.size() + needed_for_the_rest <= kMostAnswerBytes ? lines : nothing;
  }
  return bytes;
}

std::optional<std::vector<RawLines>> decode_lines(std::string_view bytes, std::size_t addresses) {
  Decoder decoder(bytes);
  std::vector<RawLines> answer(addresses);
  for (RawLines& lines : answer) {
    const std::size_t count = decoder.number(kMostInlined);
    for (std::size_t i = 0; i < count && decoder.good(); ++i) {
      RawLine line;
      line.function = decoder.text();
      line.file = decoder.text();
      line.line = decoder.number(~std::uint32_t{0});
      lines.push_back(std::move(line));
    }
  }
  if (!decoder.good() || !decoder.at_end()) return {};
  return answer;
}

}  // namespace spanfold::proc
