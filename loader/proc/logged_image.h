// SPDX-License-Identifier: Apache-2.0
// What a process has mapped between two execs, by what the kernel told as it happened.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/process.h"
#include "base/task_sink.h"

namespace spanfold::proc {

class Binary;

// How the kernel tells a file.
struct FileName {
  std::string_view path;      // below the root of the process
  std::string_view build_id;  // as bytes; empty: device and inode tell it
  dev_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileName&) const = default;

  [[nodiscard]] bool is_file() const { return path.starts_with('/') && !path.starts_with("//"); }
  [[nodiscard]] bool is_vdso() const { return path == "[vdso]"; }
};

// One for all mappings of a name.
struct LoggedFile {
  std::string path;
  std::string build_id;
  dev_t device = 0;
  std::uint64_t inode = 0;

  // What was found for it, which is true for mappings of that boot time and later; and when nothing was.
  mutable std::weak_ptr<Binary> binary;
  mutable std::uint64_t good_since_ns = 0;
  mutable std::uint64_t missed_ns = 0;

  [[nodiscard]] FileName name() const { return {path, build_id, device, inode}; }
};

class LoggedFiles {
 public:
  [[nodiscard]] std::shared_ptr<const LoggedFile> of(const FileName& name);
  // Drops those that no mapping holds, now and then: cheap enough to be called often.
  void drop_unused();
  [[nodiscard]] std::size_t size() const { return files_.size(); }

 private:
  using Kept = std::shared_ptr<const LoggedFile>;
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const FileName& name) const;
    std::size_t operator()(const Kept& file) const { return (*this)(file->name()); }
  };
  struct Same {
    using is_transparent = void;
    static FileName name_of(const FileName& name) { return name; }
    static FileName name_of(const Kept& file) { return file->name(); }
    bool operator()(const auto& a, const auto& b) const { return name_of(a) == name_of(b); }
  };
  std::unordered_set<Kept, Hash, Same> files_;
  std::size_t drop_at_ = 64;
};

struct LoggedMapping {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t boottime_ns = 0;  // when it came to be, or before
  std::shared_ptr<const LoggedFile> file;
};

// Executable mappings by start, without overlaps. Counts them in a total of the owner's.
class MappingList {
 public:
  explicit MappingList(std::size_t& total) : total_(total) {}
  MappingList(const MappingList& other) : total_(other.total_), ranges_(other.ranges_) { total_ += ranges_.size(); }
  MappingList& operator=(const MappingList&) = delete;
  ~MappingList() { total_ -= ranges_.size(); }

  // What it overlaps ends there, or goes.
  void add(LoggedMapping mapping);
  [[nodiscard]] const std::vector<LoggedMapping>& ranges() const { return ranges_; }

 private:
  std::size_t& total_;
  std::vector<LoggedMapping> ranges_;
};

struct LoggedImage {
  std::uint64_t begin_ns = 0;    // of the fork or exec
  std::uint64_t changed_ns = 0;  // of the last mapping since then; 0: none
  // Forks share it until one side maps something. Null: it began before anybody listened.
  std::shared_ptr<MappingList> mappings;
  ImageTag tag;  // zeros: not known, but where the program's code lies: it is the first file that an exec maps
  std::uint64_t program_start = 0;
  std::uint64_t program_end = 0;
  std::shared_ptr<const LoggedFile> program;
  bool program_done = false;

  void add(LoggedMapping mapping);
  // False where the process that shows `image` ran something else.
  [[nodiscard]] bool fits(const ImageTag& image) const;
};

}  // namespace spanfold::proc
