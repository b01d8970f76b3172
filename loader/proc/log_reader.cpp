// SPDX-License-Identifier: Apache-2.0
#include "proc/log_reader.h"

#include <cstddef>
#include <utility>

#include "proc/identity.h"
#include "proc/procfs.h"
#include "proc/read_maps.h"

namespace spanfold::proc {

// A process that shows the image of its child has executed nothing since it made it: the log would know, but of who
// began before it listened it does not.
void LogReader::adopt(std::uint32_t pid, const ImageTag& image) {
  const Fd folder = open_process_folder(pid);
  if (!folder) return;
  const auto ranges = read_maps(folder.get());
  const auto stat = read_stat(folder.get());
  if (!ranges || !stat || image == ImageTag{} || stat->image != image) return;
  const MappingList* const list = log_.adopt(pid, image, start_of(*stat), *ranges);
  for (std::size_t i = 0; list != nullptr && i < ranges->size(); ++i) {
    // Through the one that lives, while it does: there are more ways to its files.
    const LoggedFile& file = *list->ranges()[i].file;
    if ((*ranges)[i].has_file()) file.binary = shared_.binaries.of_file(folder.get(), (*ranges)[i]);
  }
}

MappingLog::Found LogReader::look_up(const ProcessKey& key, const ImageTag& image, std::uint64_t seen_ns) {
  const MappingLog::Found found = log_.find(key, image, seen_ns);
  if (found.same_as == 0) return found;
  adopt(found.same_as, image);
  return log_.find(key, image, seen_ns);
}

void LogReader::add_region(const LoggedMapping& mapping, std::span<const std::uint32_t> pids, Process::Told& told) {
  const LoggedFile& file = *mapping.file;
  const MapRange range{.start = mapping.start,
                       .end = mapping.end,
                       .file_offset = mapping.file_offset,
                       .device = file.device,
                       .inode = file.inode,
                       .executable = true,
                       .name = file.path};
  Process::Region& region = told.regions.emplace_back(Process::Region{.start = mapping.start,
                                                                      .end = mapping.end,
                                                                      .file_offset = mapping.file_offset,
                                                                      .device = file.device,
                                                                      .inode = file.inode,
                                                                      .binary = finder_.find(mapping, pids)});
  Process::judge(range, region, told.signs, shared_.interner);
  told.whole = told.whole && (region.binary || region.generated || !file.name().is_file());
}

void LogReader::bring_up(Process& process, const ImageTag& image, std::uint64_t seen_ns) {
  const MappingLog::Found found = look_up(process.key(), image, seen_ns);
  if (found.image == nullptr || process.is_told(image, found.image->changed_ns)) return;
  std::vector<std::uint32_t> pids = log_.ancestors(process.key().pid, seen_ns);
  pids.insert(pids.begin(), process.key().pid);
  Process::Told told{.image = image, .changed_ns = found.image->changed_ns};
  for (const LoggedMapping& mapping : found.image->mappings->ranges()) add_region(mapping, pids, told);
  if (found.image->program) told.program = found.image->program->path;
  process.take(std::move(told), shared_);
}

}  // namespace spanfold::proc
