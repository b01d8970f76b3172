// SPDX-License-Identifier: Apache-2.0
#include "bpf/cpus.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/file.h"

namespace spanfold::bpf {
namespace {

bool parse_number(std::string_view& text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value < 0) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

std::vector<int> parse_cpu_list(const std::string& text) {
  constexpr int kMostCpus = 1 << 16;
  std::vector<bool> listed;  // by number: a range may stand in the list again and again
  std::string_view rest = text;
  while (!rest.empty() && rest.back() == '\n') rest.remove_suffix(1);
  while (!rest.empty()) {
    int first = 0;
    if (!parse_number(rest, first)) return {};
    int last = first;
    if (!rest.empty() && rest.front() == '-') {
      rest.remove_prefix(1);
      if (!parse_number(rest, last)) return {};
    }
    if (last < first || last >= kMostCpus) return {};
    if (listed.size() <= static_cast<std::size_t>(last)) listed.resize(static_cast<std::size_t>(last) + 1);
    std::fill(listed.begin() + first, listed.begin() + last + 1, true);
    if (rest.empty()) break;
    if (rest.front() != ',') return {};
    rest.remove_prefix(1);
    if (rest.empty()) return {};
  }
  std::vector<int> cpus;
  for (std::size_t cpu = 0; cpu < listed.size(); ++cpu) {
    if (listed[cpu]) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

Result<std::vector<int>> online_cpus() {
  auto text = read_file("/sys/devices/system/cpu/online", 65536);
  if (!text) return text.error();
  return parse_cpu_list(*text);
}

}  // namespace spanfold::bpf
