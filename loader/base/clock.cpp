// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <limits>
#include <optional>
#include <string>

namespace spanfold {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();

std::uint64_t read_clock_ns(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(time.tv_nsec);
}

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

// Digits, at most one point among them, as an exact multiple of the unit; nothing where that is not a whole number in
// range. `text` holds digits and points only.
std::optional<std::uint64_t> scale(std::string_view text, std::uint64_t factor) {
  unsigned __int128 value = 0;
  unsigned __int128 divisor = 1;
  bool fraction = false;
  bool digits = false;
  for (const char byte : text) {
    if (byte == '.') {
      if (fraction) return std::nullopt;
      fraction = true;
      continue;
    }
    digits = true;
    value = value * 10 + static_cast<unsigned>(byte - '0');
    if (fraction) divisor *= 10;
    if (value > kMax || divisor > kMax) return std::nullopt;
  }
  value *= factor;
  if (!digits || value % divisor != 0 || value / divisor > kMax) return std::nullopt;
  return static_cast<std::uint64_t>(value / divisor);
}

template <std::size_t N>
std::optional<std::uint64_t> parse_with_unit(std::string_view text, const std::array<Unit, N>& units) {
  const auto* const number_end =
      std::find_if_not(text.begin(), text.end(), [](char byte) { return is_digit(byte) || byte == '.'; });
  const auto length = static_cast<std::size_t>(number_end - text.begin());
  const std::string_view suffix = text.substr(length);
  const auto* const unit =
      std::find_if(units.begin(), units.end(), [suffix](const Unit& each) { return each.name == suffix; });
  if (unit == units.end()) return std::nullopt;
  return scale(text.substr(0, length), unit->factor);
}

Error usage(std::string what, std::string hint) {
  return Error{.what = std::move(what), .hint = std::move(hint), .failure = Failure::kUsage};
}

}  // namespace

std::uint64_t boot_clock_ns() { return read_clock_ns(CLOCK_BOOTTIME); }
std::uint64_t unix_clock_ns() { return read_clock_ns(CLOCK_REALTIME); }
std::uint64_t process_cpu_ns() { return read_clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

BootToUnix BootToUnix::now() {
  constexpr int kPairs = 8;
  std::uint64_t tightest = std::numeric_limits<std::uint64_t>::max();
  std::int64_t offset_ns = 0;
  for (int pair = 0; pair < kPairs; ++pair) {
    const std::uint64_t before = boot_clock_ns();
    const std::uint64_t unix_ns = unix_clock_ns();
    const std::uint64_t width = boot_clock_ns() - before;
    if (width >= tightest) continue;
    tightest = width;
    offset_ns = static_cast<std::int64_t>(unix_ns - (before + width / 2));
  }
  return BootToUnix(offset_ns);
}

Result<std::uint64_t> parse_duration_ns(std::string_view text) {
  constexpr std::array<Unit, 7> kUnits = {{{"", 1'000'000'000},
                                           {"ns", 1},
                                           {"us", 1'000},
                                           {"ms", 1'000'000},
                                           {"s", 1'000'000'000},
                                           {"m", 60'000'000'000},
                                           {"h", 3'600'000'000'000}}};
  if (const auto value = parse_with_unit(text, kUnits)) return *value;
  return usage(fmt::format("bad duration '{}'", text), "write 10, 500ms, 10s, 5m or 1h");
}

Result<std::uint64_t> parse_size_bytes(std::string_view text) {
  constexpr std::array<Unit, 9> kUnits = {{{"", 1},
                                           {"k", 1ULL << 10},
                                           {"kib", 1ULL << 10},
                                           {"m", 1ULL << 20},
                                           {"mib", 1ULL << 20},
                                           {"g", 1ULL << 30},
                                           {"gib", 1ULL << 30},
                                           {"t", 1ULL << 40},
                                           {"tib", 1ULL << 40}}};
  std::string lower(text);
  for (char& byte : lower) {
    if (byte >= 'A' && byte <= 'Z') byte = static_cast<char>(byte - 'A' + 'a');
  }
  if (const auto value = parse_with_unit(lower, kUnits)) return *value;
  return usage(fmt::format("bad size '{}'", text), "write 4096, 10KiB, 64M or 2GiB");
}

}  // namespace spanfold
