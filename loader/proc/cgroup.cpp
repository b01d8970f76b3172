// SPDX-License-Identifier: Apache-2.0
#include "proc/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <utility>

#include "base/file.h"

namespace spanfold::proc {
namespace {

// As many processes as a kernel can have (PID_MAX_LIMIT), of seven digits.
constexpr std::size_t kMostProcsBytes = (std::size_t{1} << 22) * 8;

// Takes the next word up to a space.
std::string_view take_word(std::string_view& line) {
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

// Space, tab, newline and backslash are written as a backslash and three octal digits.
std::string unescaped(std::string_view word) {
  std::string text;
  for (std::size_t i = 0; i < word.size(); ++i) {
    unsigned value = 0;
    const std::string_view digits = word.substr(std::min(i + 1, word.size()), 3);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
    const bool escaped = word[i] == '\\' && digits.size() == 3 && error == std::errc{} && end == digits.end();
    text += escaped ? static_cast<char>(value) : word[i];
    if (escaped) i += digits.size();
  }
  return text;
}

void take_mount(std::string_view line, std::vector<CgroupMount>& mounts) {
  constexpr int kWordsBeforePath = 4;  // id, parent, device, root
  constexpr std::string_view kBeforeType = " - ";
  for (int i = 0; i < kWordsBeforePath; ++i) take_word(line);
  const std::string_view path = take_word(line);
  const std::size_t dash = (" " + std::string(line)).find(kBeforeType);
  if (dash == std::string::npos) return;
  line.remove_prefix(dash + kBeforeType.size() - 1);
  const std::string_view type = take_word(line);
  if (type == "cgroup" || type == "cgroup2") mounts.push_back({.path = unescaped(path), .is_v2 = type == "cgroup2"});
}

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

Folder open_folder(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  Folder folder(fd ? fdopendir(fd.get()) : nullptr);
  if (folder) (void)fd.release();
  return folder;
}

void add_folders_in(const std::string& path, std::vector<std::string>& paths) {
  const Folder folder = open_folder(path);
  if (!folder) return;
  while (const dirent* entry = readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..") paths.push_back(fmt::format("{}/{}", path, name));
  }
}

// One number a line. A process outside of this pid namespace is 0.
void add_pids(std::string_view text, std::vector<std::uint32_t>& pids) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::uint32_t pid = 0;
    const auto [next, error] = std::from_chars(at, end, pid);
    if (error == std::errc{} && pid != 0) pids.push_back(pid);
    at = std::find(next, end, '\n');
    if (at < end) ++at;
  }
}

Error no_group(const std::string& path) {
  return Error{.what = fmt::format("{} is no cgroup", path),
               .hint = "a folder in a file system of type cgroup or cgroup2, mostly below /sys/fs/cgroup",
               .failure = Failure::kUsage};
}

Error no_such_group(const std::string& name, const std::vector<CgroupMount>& mounts) {
  Error error{.what = fmt::format("find the cgroup {}", name), .code = ENOENT};
  error.hint = mounts.empty() ? "no cgroup file system is mounted"
                              : fmt::format(
                                    "a folder, or a name below {} or another mount of cgroups; "
                                    "/proc/PID/cgroup shows what a process is in",
                                    mounts.front().path);
  return error;
}

// Those of the name below the mounts, v2 first.
std::vector<Cgroup> groups_of(const std::string& name, const std::vector<CgroupMount>& mounts) {
  std::vector<Cgroup> found;
  for (const CgroupMount& mount : mounts) {
    Result<Cgroup> group = open_cgroup(fmt::format("{}{}{}", mount.path, name.starts_with('/') ? "" : "/", name));
    if (group) found.push_back(std::move(*group));
  }
  return found;
}

}  // namespace

std::vector<CgroupMount> cgroup_mounts(std::string_view mountinfo) {
  std::vector<CgroupMount> mounts;
  while (!mountinfo.empty()) {
    const std::size_t end = std::min(mountinfo.find('\n'), mountinfo.size());
    take_mount(mountinfo.substr(0, end), mounts);
    mountinfo.remove_prefix(std::min(end + 1, mountinfo.size()));
  }
  std::stable_partition(mounts.begin(), mounts.end(), [](const CgroupMount& mount) { return mount.is_v2; });
  return mounts;
}

Result<Cgroup> open_cgroup(const std::string& path) {
  Cgroup group{.path = path, .folder = Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC))};
  struct statfs system {};
  struct stat status {};
  if (!group.folder || ::fstatfs(group.folder.get(), &system) != 0 || ::fstat(group.folder.get(), &status) != 0) {
    if (errno == ENOTDIR) return no_group(path);
    return errno_error(fmt::format("open the cgroup {}", path));
  }
  group.is_v2 = system.f_type == CGROUP2_SUPER_MAGIC;
  group.inode = status.st_ino;
  if (group.is_v2 || system.f_type == CGROUP_SUPER_MAGIC) return group;
  return no_group(path);
}

Result<Cgroup> find_cgroup(const std::string& name, const std::vector<CgroupMount>& mounts) {
  if (name.starts_with('/')) {
    Result<Cgroup> group = open_cgroup(name);
    if (group || group.error().code != ENOENT) return group;
  }
  std::vector<Cgroup> groups = groups_of(name, mounts);
  if (groups.empty()) return no_such_group(name, mounts);
  const auto inhabited =
      std::find_if(groups.begin(), groups.end(), [](const Cgroup& group) { return !is_empty_cgroup(group.path); });
  return std::move(inhabited == groups.end() ? groups.front() : *inhabited);
}

bool is_empty_cgroup(const std::string& path) {
  const auto members = cgroup_members(path);
  return members && members->empty();
}

Result<std::vector<std::uint32_t>> cgroup_members(const std::string& path) {
  std::vector<std::uint32_t> pids;
  std::vector<std::string> paths = {path};
  for (bool first = true; !paths.empty(); first = false) {
    const std::string folder = std::move(paths.back());
    paths.pop_back();
    const Result<std::string> text = read_file(folder + "/cgroup.procs", kMostProcsBytes);
    if (!text && first) return text.error();
    if (text) add_pids(*text, pids);
    add_folders_in(folder, paths);
  }
  std::sort(pids.begin(), pids.end());
  pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
  return pids;
}

}  // namespace spanfold::proc
