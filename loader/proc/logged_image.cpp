// SPDX-License-Identifier: Apache-2.0
#include "proc/logged_image.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

namespace spanfold::proc {

std::size_t LoggedFiles::Hash::operator()(const FileName& name) const {
  const std::hash<std::string_view> hash;
  return hash(name.path) ^ hash(name.build_id) * 3 ^ (name.device + name.inode) * 0x9e3779b97f4a7c15;
}

std::shared_ptr<const LoggedFile> LoggedFiles::of(const FileName& name) {
  const auto known = files_.find(name);
  if (known != files_.end()) return *known;
  auto file = std::make_shared<LoggedFile>();
  file->path = name.path;
  file->build_id = name.build_id;
  file->device = name.device;
  file->inode = name.inode;
  return *files_.insert(std::move(file)).first;
}

void LoggedFiles::drop_unused() {
  constexpr std::size_t kFewest = 64;
  if (files_.size() < drop_at_) return;
  std::erase_if(files_, [](const Kept& file) { return file.use_count() == 1; });
  drop_at_ = std::max(2 * files_.size(), kFewest);
}

void MappingList::add(LoggedMapping mapping) {
  total_ -= ranges_.size();
  auto first = std::partition_point(ranges_.begin(), ranges_.end(),
                                    [&](const LoggedMapping& old) { return old.end <= mapping.start; });
  auto last =
      std::partition_point(first, ranges_.end(), [&](const LoggedMapping& old) { return old.start < mapping.end; });
  std::vector<LoggedMapping> pieces;
  if (first != last && first->start < mapping.start) {
    pieces.push_back(*first);
    pieces.back().end = mapping.start;
  }
  const std::uint64_t end = mapping.end;
  pieces.push_back(std::move(mapping));
  if (first != last && std::prev(last)->end > end) {
    pieces.push_back(*std::prev(last));
    pieces.back().file_offset += end - pieces.back().start;
    pieces.back().start = end;
  }
  const auto at = ranges_.erase(first, last);
  ranges_.insert(at, std::make_move_iterator(pieces.begin()), std::make_move_iterator(pieces.end()));
  total_ += ranges_.size();
}

void LoggedImage::add(LoggedMapping mapping) {
  changed_ns = mapping.boottime_ns;
  if (!mappings) return;
  if (!program_done && mapping.file->name().is_file()) {
    if (!program) {
      program = mapping.file;
      program_start = mapping.start;
    }
    program_done = program != mapping.file;
    if (!program_done) program_end = std::max(program_end, mapping.end);
  }
  if (mappings.use_count() > 1) mappings = std::make_shared<MappingList>(*mappings);
  mappings->add(std::move(mapping));
}

bool LoggedImage::fits(const ImageTag& image) const {
  if (tag != ImageTag{}) return tag == image;
  static const auto kPageMask = ~(static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) - 1);
  // The first mapping of a program may be as long as the whole of it for an instant, so the end is no exact one; the
  // begin of code was that of all segments once, executable or not.
  return (image.start_code & kPageMask) <= program_start && image.end_code > program_start &&
         image.end_code <= program_end;
}

}  // namespace spanfold::proc
