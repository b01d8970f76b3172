// SPDX-License-Identifier: Apache-2.0
#include "bpf/context_map.h"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/log.h"

namespace spanfold::bpf {
namespace {

namespace fs = std::filesystem;

std::string default_root() {
  const char* root = std::getenv("OTEL_EBPF_BPF_FS_PATH");
  return root != nullptr && *root != '\0' ? root : "/sys/fs/bpf";
}

bool is_bpffs(const fs::path& path) {
  struct statfs info {};
  return statfs(path.c_str(), &info) == 0 && info.f_type == static_cast<decltype(info.f_type)>(BPF_FS_MAGIC);
}

// The closest folder above the pin that exists: what decides which file system the pin will be on.
fs::path existing_parent(const fs::path& path) {
  fs::path parent = path.parent_path();
  std::error_code error;
  while (!parent.empty() && parent != parent.root_path() && !fs::exists(parent, error)) parent = parent.parent_path();
  return parent;
}

Status make_bpffs(const fs::path& path) {
  const fs::path parent = existing_parent(path);
  if (is_bpffs(parent)) return ok();
  const fs::path root = default_root();
  if (parent != root) {
    return Error{.what = fmt::format("{} is not on a bpffs", path.string()),
                 .hint = fmt::format("mount -t bpf bpf {}, or name another pin with --ctx-map", parent.string()),
                 .failure = Failure::kHost};
  }
  if (mount("bpf", root.c_str(), "bpf", 0, "mode=0700") != 0) {
    Error error = errno_error(fmt::format("mount a bpffs on {}", root.string()), "run as root, or mount it beforehand");
    error.failure = Failure::kHost;
    return error;
  }
  log::info("mounted a bpffs on {}: there was none", root.string());
  return ok();
}

// A pin may be a program or a link; only the descriptor's own name tells.
std::string kind_of(int fd) {
  std::array<char, 64> name{};
  const auto length = readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), name.data(), name.size() - 1);
  return length > 0 ? std::string(name.data(), static_cast<std::size_t>(length)) : "unknown";
}

// Empty: the map can serve.
std::string shape_problem(const std::string& path, int fd, bpf_map_info& info) {
  constexpr std::string_view kMapKind = "anon_inode:bpf-map";
  if (const std::string kind = kind_of(fd); kind != kMapKind) {
    return fmt::format("{} is no map: expected {}, found {}", path, kMapKind, kind);
  }
  std::uint32_t length = sizeof(info);
  if (bpf_obj_get_info_by_fd(fd, &info, &length) != 0) return fmt::format("{}: cannot read the map's shape", path);
  const bool hash = info.type == BPF_MAP_TYPE_LRU_HASH || info.type == BPF_MAP_TYPE_HASH;
  if (hash && info.key_size == kContextKeyBytes && info.value_size >= kContextValueBytes) return {};
  return fmt::format(
      "{} has another shape: expected a hash with {}-byte keys and values of {} bytes or more, found map type {}, "
      "key {}, value {}",
      path, kContextKeyBytes, kContextValueBytes, info.type, info.key_size, info.value_size);
}

ContextMap adopt(const std::string& path, Fd fd, bool created) {
  ContextMap map;
  bpf_map_info info{};
  map.problem = shape_problem(path, fd.get(), info);
  if (!map.problem.empty()) return map;
  map.created = created;
  map.id = info.id;
  map.fd = std::move(fd);
  return map;
}

Result<Fd> create_and_pin(const std::string& path) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error) {
    return Error{
        .what = fmt::format("create the folder of {}", path), .code = error.value(), .failure = Failure::kHost};
  }
  Fd fd(bpf_map_create(BPF_MAP_TYPE_LRU_HASH, "traces_ctx_v1", kContextKeyBytes, kContextValueBytes, kContextEntries,
                       nullptr));
  if (!fd) {
    Error failed = errno_error("create the context map", "needs CAP_BPF: run as root");
    failed.failure = Failure::kHost;
    return failed;
  }
  if (bpf_obj_pin(fd.get(), path.c_str()) != 0) {
    Error failed = errno_error(fmt::format("pin the context map at {}", path), "needs CAP_BPF and a writable bpffs");
    failed.failure = Failure::kHost;
    return failed;
  }
  return fd;
}

// Of what the kernel reads at once. A bucket of the hash must fit: with as many buckets as entries, few hold ten.
constexpr std::uint32_t kBatch = 1024;

std::uint64_t hash_of_entry(const std::uint8_t* key, const std::uint8_t* value) {
  std::array<std::uint64_t, 4> words{};
  std::memcpy(words.data(), key, kContextKeyBytes);
  std::memcpy(&words[1], value, kContextValueBytes);
  std::uint64_t hash = 0;
  for (const std::uint64_t word : words) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

std::string default_context_path() { return default_root() + "/otel/traces_ctx_v1"; }

Result<ContextMap> open_context_map(const std::string& path) {
  if (Status mounted = make_bpffs(path); !mounted) return mounted.error();
  // Twice, because OBI may pin its map between our look and our own pin; whoever is second adopts.
  for (int attempt = 0; attempt < 2; ++attempt) {
    Fd fd(bpf_obj_get(path.c_str()));
    if (fd) return adopt(path, std::move(fd), false);
    if (errno != ENOENT) {
      Error error =
          errno_error(fmt::format("open the context map {}", path), "run as root, or name another pin with --ctx-map");
      error.failure = Failure::kHost;
      return error;
    }
    Result<Fd> made = create_and_pin(path);
    if (made) return adopt(path, std::move(*made), true);
    if (made.error().code != EEXIST) return made.error();
  }
  return Error{.what = fmt::format("the context map {} comes and goes", path), .failure = Failure::kHost};
}

std::optional<ContextGlimpse> glimpse_context_map(const std::string& path, std::uint64_t most_entries) {
  LIBBPF_OPTS(bpf_obj_get_opts, read_only, .file_flags = BPF_F_RDONLY);
  const Fd fd(bpf_obj_get_opts(path.c_str(), &read_only));
  bpf_map_info info{};
  if (!fd || !shape_problem(path, fd.get(), info).empty()) return std::nullopt;
  std::vector<std::uint8_t> keys(std::size_t{kBatch} * info.key_size);
  std::vector<std::uint8_t> values(std::size_t{kBatch} * info.value_size);
  ContextGlimpse glimpse;
  std::uint64_t place = 0;  // opaque; the first call takes none
  bool more = true;
  for (bool first = true; more && glimpse.entries < most_entries; first = false) {
    std::uint32_t count = kBatch;
    more = bpf_map_lookup_batch(fd.get(), first ? nullptr : &place, &place, keys.data(), values.data(), &count,
                                nullptr) == 0;
    if (!more && errno != ENOENT) return std::nullopt;
    for (std::size_t at = 0; at < count; ++at) {
      glimpse.sum += hash_of_entry(&keys[at * info.key_size], &values[at * info.value_size]);
    }
    glimpse.entries += count;
  }
  return glimpse;
}

bool context_map_empty(int fd) {
  std::uint64_t key = 0;
  return bpf_map_get_next_key(fd, nullptr, &key) != 0 && errno == ENOENT;
}

}  // namespace spanfold::bpf
