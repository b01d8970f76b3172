// SPDX-License-Identifier: Apache-2.0
#include "proc/binary_cache.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "proc/procfs.h"

namespace spanfold::proc {
namespace {

constexpr std::size_t kMaxVdsoBytes = 64UL * 1024;  // 8 KiB on x86-64 and arm64
// One for each ABI of the host and each way the kernel patched it; more come only from processes that write into it.
constexpr std::size_t kMaxVdsoImages = 16;

// Half of the descriptors this process may have: the other half is for maps, programs, events and sockets.
std::size_t file_budget() {
  rlimit limit{};
  constexpr std::size_t kDefault = 1024;
  constexpr std::size_t kMost = 8192;
  const bool known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return std::min((known ? limit.rlim_cur : kDefault) / 2, kMost);
}

// The name to show. What is deleted has no link left, and the kernel says " (deleted)" behind its last name.
std::string shown_name(const MapRange& range, nlink_t links) {
  constexpr std::string_view kDeleted = " (deleted)";
  std::string_view name = range.name;
  if (links == 0 && name.ends_with(kDeleted)) name.remove_suffix(kDeleted.size());
  return std::string(name);
}

// The kernel's paths begin at our root, or at that of another mount namespace; a process in a chroot has a root below.
std::string path_in_root(int process_folder, const std::string& name) {
  const std::string root = read_link_at(process_folder, "root");
  return root != "/" && name.starts_with(root + "/") ? name.substr(root.size()) : name;
}

}  // namespace

BinaryCache::BinaryCache(Interner& interner, LineFinder* lines, std::size_t most_table_bytes)
    : interner_(interner), lines_(lines), max_files_(file_budget()), symbols_(most_table_bytes) {}

std::shared_ptr<Binary> BinaryCache::of_file(int process_folder, const MapRange& range) {
  const MapsId maps_id{range.device, range.inode};
  const auto known = exact_.find(maps_id);
  if (known != exact_.end()) {
    if (known->second->source().unchanged()) return known->second;
    exact_.erase(known);
  }
  if (!make_room()) return nullptr;
  auto file = open_mapped(process_folder, range);
  if (!file) {
    log::debug("cannot open {} as mapped: its frames stay without names", range.name);
    return nullptr;
  }
  const bool exact = file->exact;
  const std::string name = shown_name(range, file->status.st_nlink);
  auto binary = of_opened(process_folder, std::move(*file), name);
  if (exact) exact_.emplace(maps_id, binary);
  return binary;
}

bool BinaryCache::make_room() {
  const auto held = [&] { return files_.size() + symbols_.open_files(); };
  if (held() >= max_files_) drop_unused();
  return held() < max_files_;
}

std::shared_ptr<Binary> BinaryCache::of_opened(int process_folder, OpenedFile file, const std::string& name) {
  if (!make_room()) return nullptr;
  constexpr std::int64_t kSecondNs = 1'000'000'000;
  const struct stat& status = file.status;
  const FileId id{status.st_dev, status.st_ino, status.st_size,
                  status.st_mtim.tv_sec * kSecondNs + status.st_mtim.tv_nsec};
  std::shared_ptr<Binary>& binary = files_[id];
  if (!binary) {
    auto source = std::make_unique<FileSource>(std::move(file.fd), status);
    binary = std::make_shared<Binary>(std::move(source), name, "", interner_, symbols_, lines_);
    binary->look_for_debug_file(process_folder, path_in_root(process_folder, name));
  }
  return binary;
}

std::shared_ptr<Binary> BinaryCache::of_build_id(const std::string& build_id) const {
  const auto found = std::find_if(files_.begin(), files_.end(),
                                  [&](const auto& entry) { return entry.second->build_ids().gnu == build_id; });
  return found == files_.end() ? nullptr : found->second;
}

std::shared_ptr<Binary> BinaryCache::of_vdso(int process_folder, const MapRange& range) {
  const Fd memory(::openat(process_folder, "mem", O_RDONLY | O_CLOEXEC));
  if (!memory || range.end - range.start > kMaxVdsoBytes) return nullptr;
  std::string image(range.end - range.start, '\0');
  const ssize_t got = ::pread(memory.get(), image.data(), image.size(), static_cast<off_t>(range.start));
  if (got != static_cast<ssize_t>(image.size())) return nullptr;
  for (const VdsoImage& known : vdsos_) {
    if (known.bytes == image) return known.binary;
  }
  if (vdsos_.size() >= kMaxVdsoImages) return nullptr;
  auto source = std::make_unique<MemorySource>(image);
  const auto elf = ElfFile::read(*source);
  const std::string id = htlhash_of_build_id(elf ? elf->build_ids().gnu : "");
  auto binary = std::make_shared<Binary>(std::move(source), "[vdso]", id, interner_, symbols_);
  vdsos_.push_back({std::move(image), binary});
  return binary;
}

void BinaryCache::drop_unused() {
  // One reference in files_, and one in exact_ for those that are there.
  std::erase_if(exact_, [](const auto& entry) { return entry.second.use_count() <= 2; });
  std::erase_if(files_, [](const auto& entry) { return entry.second.use_count() <= 1; });
  symbols_.drop_unused();
}

void BinaryCache::clear() {
  exact_.clear();
  files_.clear();
  vdsos_.clear();
  symbols_.clear();
}

}  // namespace spanfold::proc
