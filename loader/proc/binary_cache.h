// SPDX-License-Identifier: Apache-2.0
// The binaries that are open, so that a file is read once however many processes map it.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proc/binary.h"
#include "proc/maps.h"
#include "proc/open_mapped.h"

namespace spanfold::proc {

class BinaryCache {
 public:
  // `lines` null: nobody wants them. `most_table_bytes`: what symbol tables may hold in memory.
  explicit BinaryCache(Interner& interner, LineFinder* lines = nullptr,
                       std::size_t most_table_bytes = SymbolCache::kUsualBytes);

  // The binary behind a range with a file, opened through an open folder /proc/PID where it is not known yet. Null
  // where it cannot be opened, is not certainly the one that is mapped, or too many are open already.
  [[nodiscard]] std::shared_ptr<Binary> of_file(int process_folder, const MapRange& range);
  // The binary in an open file that the caller holds for the right one, called `name`, which a process with that open
  // folder /proc/PID sees. Null: too many are open.
  [[nodiscard]] std::shared_ptr<Binary> of_opened(int process_folder, OpenedFile file, const std::string& name);
  // One that is open already and has this GNU build id, in hex; null where there is none.
  [[nodiscard]] std::shared_ptr<Binary> of_build_id(const std::string& build_id) const;
  // The vDSO behind `range`, copied from the memory of the process; equal images are one binary. Null where that fails.
  [[nodiscard]] std::shared_ptr<Binary> of_vdso(int process_folder, const MapRange& range);

  // Of the memory for tables, the kernel's takes `bytes`.
  void leave_room_for(std::size_t bytes) { symbols_.leave_room_for(bytes); }
  // Closes what nobody but the cache holds.
  void drop_unused();
  void clear();
  [[nodiscard]] std::size_t open_files() const { return files_.size(); }
  [[nodiscard]] std::size_t memory_bytes() const { return symbols_.memory_bytes(); }
  [[nodiscard]] const SymbolCache& symbols() const { return symbols_; }

 private:
  // A file as it was when it was opened. The descriptor stays open, so the inode is not given to another file; the
  // times tell when it was written over in place.
  struct FileId {
    dev_t device = 0;
    ino_t inode = 0;
    off_t bytes = 0;
    std::int64_t modified_ns = 0;
    auto operator<=>(const FileId&) const = default;
  };
  struct MapsId {
    dev_t device = 0;
    std::uint64_t inode = 0;
    auto operator<=>(const MapsId&) const = default;
  };
  struct VdsoImage {
    std::string bytes;
    std::shared_ptr<Binary> binary;
  };

  [[nodiscard]] bool make_room();

  Interner& interner_;
  LineFinder* lines_;
  std::size_t max_files_;
  SymbolCache symbols_;
  std::map<FileId, std::shared_ptr<Binary>> files_;
  std::map<MapsId, std::shared_ptr<Binary>> exact_;  // those that device and inode of /proc/PID/maps identify
  std::vector<VdsoImage> vdsos_;
};

}  // namespace spanfold::proc
