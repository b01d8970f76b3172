// SPDX-License-Identifier: Apache-2.0
#include "proc/identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string>
#include <vector>

#include "base/file.h"
#include "proc/procfs.h"

namespace spanfold::proc {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;

// The offsets that this process can read are those of its children's time namespace. Until one is made they are its own
// too, and again after exec (before Linux 6.0 only in what it forks).
bool shares_offsets_with_children() {
  struct stat own {};
  struct stat children {};
  return ::stat("/proc/self/ns/time", &own) != 0 || ::stat("/proc/self/ns/time_for_children", &children) != 0 ||
         own.st_ino == children.st_ino;
}

// Start times in /proc are shifted by the reader's time namespace, those of the kernel side are not. Lines of
// /proc/self/timens_offsets (time_namespaces(7)): "boottime <seconds> <nanoseconds>".
std::int64_t read_boot_clock_shift_ns() {
  if (!shares_offsets_with_children()) return 0;
  const auto text = read_file("/proc/self/timens_offsets", 4096);
  if (!text) return 0;  // before 5.6 there are no time namespaces
  const std::size_t at = text->find("boottime");
  if (at == std::string::npos) return 0;
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;
  const char* next = text->data() + at + std::string_view("boottime").size();
  const char* const end = text->data() + text->size();
  for (std::int64_t* value : {&seconds, &nanoseconds}) {
    while (next != end && *next == ' ') ++next;
    next = std::from_chars(next, end, *value).ptr;
  }
  return seconds * static_cast<std::int64_t>(kSecondNs) + nanoseconds;
}

std::uint64_t tick_ns() {
  static const std::uint64_t kTickNs = kSecondNs / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  return kTickNs;
}

// The numbers behind `field`, separated by tabs; none where there is no such line, or it holds something else.
std::vector<std::uint32_t> numbers_of(std::string_view text, std::string_view field) {
  std::vector<std::uint32_t> numbers;
  const std::size_t at = text.find(field);
  if (at == std::string_view::npos) return numbers;
  text.remove_prefix(at + field.size());
  text = text.substr(0, text.find('\n'));
  while (!text.empty() && text.front() == '\t') {
    text.remove_prefix(1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), numbers.emplace_back());
    if (error != std::errc{}) return {};
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  return text.empty() ? numbers : std::vector<std::uint32_t>{};
}

}  // namespace

std::int64_t boot_clock_shift_ns() {
  static const std::int64_t kShiftNs = read_boot_clock_shift_ns();
  return kShiftNs;
}

std::uint64_t start_of(const ProcessStat& stat) {
  return stat.start_ticks * tick_ns() - static_cast<std::uint64_t>(boot_clock_shift_ns());
}

std::optional<ProcessStat> parse_stat(std::string_view text) {
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return {};
  text.remove_prefix(name_end + 1);
  constexpr int kFirstField = 3;
  std::array<std::uint64_t, 29> fields{};
  for (int field = kFirstField; field < static_cast<int>(fields.size()); ++field) {
    if (text.empty() || text.front() != ' ') return {};
    text.remove_prefix(1);
    const std::string_view word = text.substr(0, text.find_first_of(" \n"));
    text.remove_prefix(word.size());
    if (field < 22) continue;  // some before are negative or letters
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), fields[field]);
    if (field != 24 && (error != std::errc{} || end != word.data() + word.size())) return {};
  }
  return ProcessStat{fields[22], {fields[26], fields[27], fields[28]}};
}

std::optional<ProcessStat> read_stat(int process_folder) {
  const auto text = read_at(process_folder, "stat", 4096);
  return text ? parse_stat(*text) : std::nullopt;
}

std::optional<ProcessStatus> parse_status(std::string_view text) {
  // Real, effective, saved, file system.
  const auto user = numbers_of(text, "\nUid:");
  const auto pids = numbers_of(text, "\nNSpid:");
  if (user.size() != 4 || pids.empty()) return {};
  return ProcessStatus{.inner_pid = pids.back(), .user_id = user[1]};
}

std::optional<ProcessStatus> read_status(int process_folder) {
  const auto text = read_at(process_folder, "status", 16UL * 1024);
  return text ? parse_status(*text) : std::nullopt;
}

bool is_same_process(const ProcessStat& stat, const ProcessKey& key) {
  return stat.start_ticks == (key.start_boottime_ns + static_cast<std::uint64_t>(boot_clock_shift_ns())) / tick_ns();
}

bool is_same_image(const ProcessStat& stat, const ProcessKey& key, const ImageTag& image) {
  return is_same_process(stat, key) && image != ImageTag{} && stat.image == image;
}

}  // namespace spanfold::proc
