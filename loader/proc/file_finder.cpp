// SPDX-License-Identifier: Apache-2.0
#include "proc/file_finder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "proc/identity.h"
#include "proc/open_mapped.h"
#include "proc/procfs.h"
#include "proc/read_maps.h"

namespace spanfold::proc {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// The kernel's boot clock.
std::uint64_t told_clock_ns() { return boot_clock_ns() - static_cast<std::uint64_t>(boot_clock_shift_ns()); }

std::uint64_t nanoseconds(const statx_timestamp& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * kSecondNs + time.tv_nsec;
}

// Files get the time of the last tick.
std::uint64_t tick_ns() {
  timespec tick{};
  constexpr std::uint64_t kCoarsestNs = 10'000'000;
  if (::clock_getres(CLOCK_REALTIME_COARSE, &tick) != 0) return kCoarsestNs;
  return static_cast<std::uint64_t>(tick.tv_sec) * kSecondNs + static_cast<std::uint64_t>(tick.tv_nsec);
}

// Since when, by the kernel's boot clock, the file is there and holds what it holds. Where the file system does not say
// when a file was made, the last change of anything about it counts. None where that cannot be told.
std::optional<std::uint64_t> good_since_ns(int fd) {
  struct statx status {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_BTIME | STATX_MTIME | STATX_CTIME, &status) != 0) return {};
  const bool has_birth = (status.stx_mask & STATX_BTIME) != 0;
  const std::uint64_t made_ns = nanoseconds(has_birth ? status.stx_btime : status.stx_ctime);
  const std::uint64_t good_ns = std::max(made_ns, nanoseconds(status.stx_mtime)) + tick_ns();
  const std::uint64_t now_unix_ns = unix_clock_ns();
  if (good_ns > now_unix_ns) return {};
  const std::uint64_t age_ns = now_unix_ns - good_ns;
  const std::uint64_t now_ns = told_clock_ns();
  return age_ns < now_ns ? now_ns - age_ns : 0;
}

}  // namespace

std::shared_ptr<Binary> FileFinder::open(const LoggedMapping& mapping, std::uint32_t pid) {
  const LoggedFile& file = *mapping.file;
  const Fd folder = open_process_folder(pid);
  auto opened = folder ? open_path(folder.get(), file.path) : std::nullopt;
  if (!opened) return nullptr;
  if (!file.build_id.empty()) {
    auto binary = binaries_.of_opened(folder.get(), std::move(*opened), file.path);
    if (!binary || binary->build_ids().gnu != hex(file.build_id)) return nullptr;
    file.good_since_ns = 0;
    return binary;
  }
  if (opened->status.st_dev != file.device || opened->status.st_ino != file.inode) return nullptr;
  const auto since_ns = good_since_ns(opened->fd.get());
  if (!since_ns || *since_ns > mapping.boottime_ns) return nullptr;
  file.good_since_ns = *since_ns;
  return binaries_.of_opened(folder.get(), std::move(*opened), file.path);
}

// The kernel has one for each ABI. Ours is that of all whose addresses do not fit into 32 bits.
std::shared_ptr<Binary> FileFinder::vdso(const LoggedMapping& mapping) {
  constexpr std::uint64_t kOtherAbis = std::uint64_t{1} << 32;
  const Fd folder = open_process_folder(static_cast<std::uint32_t>(::getpid()));
  if (!folder || sizeof(void*) < sizeof(std::uint64_t) || mapping.start < kOtherAbis) return nullptr;
  for (const MapRange& own : read_maps(folder.get()).value_or(std::vector<MapRange>{})) {
    const bool same = own.is_vdso() && own.end - own.start == mapping.end - mapping.start;
    if (same) return binaries_.of_vdso(folder.get(), own);
  }
  return nullptr;
}

std::shared_ptr<Binary> FileFinder::find(const LoggedMapping& mapping, std::span<const std::uint32_t> pids) {
  const LoggedFile& file = *mapping.file;
  if (auto known = file.binary.lock(); known && known->source().unchanged()) {
    return mapping.boottime_ns >= file.good_since_ns ? known : nullptr;
  }
  const std::uint64_t now_ns = boot_clock_ns();
  if (file.missed_ns != 0 && now_ns - file.missed_ns < kSecondNs) return nullptr;
  std::shared_ptr<Binary> binary;
  if (file.name().is_vdso()) binary = vdso(mapping);
  if (file.name().is_file()) {
    std::vector<std::uint32_t> roots(pids.begin(), pids.end());
    roots.push_back(static_cast<std::uint32_t>(::getpid()));
    roots.push_back(1);
    for (auto pid = roots.begin(); pid != roots.end() && !binary; ++pid) binary = open(mapping, *pid);
    if (!binary && !file.build_id.empty()) binary = binaries_.of_build_id(hex(file.build_id));
  }
  file.binary = binary;
  file.missed_ns = binary ? 0 : now_ns;
  return binary;
}

}  // namespace spanfold::proc
