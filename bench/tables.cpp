// SPDX-License-Identifier: Apache-2.0
// Prints how much CPU time call-frame information takes to become a table of rules, and how large that is. Medians.
// Takes paths; without any, those of libc and of what is large here.
#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "proc/byte_source.h"
#include "unwind/cfi.h"

namespace {

constexpr int kRounds = 7;
constexpr std::uint64_t kRowBytes = 4;       // as a walker keeps it
constexpr std::uint64_t kBucketBytes = 256;  // of text, each with one number of 4 bytes

double cpu_ms() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

void measure(const std::string& path) {
  auto fd = spanfold::open_read(path);
  struct stat status {};
  if (!fd || ::fstat(fd->get(), &status) != 0) {
    fmt::print("SKIPPED: {} cannot be opened\n", path);
    return;
  }
  const spanfold::proc::FileSource source(*std::move(fd), status);
  std::vector<double> times;
  spanfold::unwind::Table table;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = cpu_ms();
    auto read = spanfold::unwind::read_table(source);
    times.push_back(cpu_ms() - begin);
    if (!read) {
      fmt::print("SKIPPED: {} has no call-frame information\n", path);
      return;
    }
    table = *std::move(read);
  }
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  const double spent_ms = times[kRounds / 2];
  const std::uint64_t rows = table.rows.size();
  const std::uint64_t text = rows == 0 ? 0 : table.rows.back().start - table.rows.front().start;
  const std::uint64_t bytes = rows * kRowBytes + text / kBucketBytes * sizeof(std::uint32_t);
  fmt::print("{:>8} {:>7} {:>12} {:>9} {:>8.1f} {:>10.1f} {:>10}  {}\n", rows, table.rules.size(),
             table.unsupported_rows, table.left_out, spent_ms, static_cast<double>(rows) / spent_ms / 1e3, bytes / 1024,
             path);
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<std::string> paths(arguments + 1, arguments + count);
  if (paths.empty())
    paths = {"/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/bin/node", "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1"};
  fmt::print("{:>8} {:>7} {:>12} {:>9} {:>8} {:>10} {:>10}\n", "rows", "rules", "unsupported", "left out", "ms",
             "M rows/s", "KiB");
  for (const std::string& path : paths) measure(path);
  return 0;
}
