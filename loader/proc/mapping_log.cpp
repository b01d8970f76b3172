// SPDX-License-Identifier: Apache-2.0
#include "proc/mapping_log.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <string_view>

#include "base/log.h"

namespace spanfold::proc {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::uint64_t kAnyTime = std::numeric_limits<std::uint64_t>::max();
// From the start time that the kernel notes to the record of the fork. On a busy host the parent is preempted between.
constexpr std::uint64_t kForkTakesNs = kSecondNs;
constexpr std::size_t kMostAncestors = 8;
constexpr std::size_t kMostImages = 32;
constexpr std::size_t kMostOfOne = 1024;  // mappings; a compiler at run time may make as many as it likes

}  // namespace

MappingLog::Processes::const_iterator MappingLog::at(std::uint32_t pid, std::uint64_t boottime_ns) const {
  const auto behind = processes_.upper_bound({pid, boottime_ns});
  if (behind == processes_.begin() || std::prev(behind)->first.first != pid) return processes_.end();
  return std::prev(behind);
}

MappingLog::Processes::iterator MappingLog::living(std::uint32_t pid) {
  const auto behind = processes_.upper_bound({pid, kAnyTime});
  if (behind == processes_.begin()) return processes_.end();
  const auto last = std::prev(behind);
  return last->first.first == pid && last->second.exit_ns == 0 ? last : processes_.end();
}

const LoggedImage& MappingLog::image_at(const Process& process, std::uint64_t boottime_ns) {
  auto image = process.images.end() - 1;
  while (image != process.images.begin() && image->begin_ns > boottime_ns) --image;
  return *image;
}

MappingLog::Processes::iterator MappingLog::add(std::uint32_t pid, std::uint64_t boottime_ns, Process process) {
  // Whoever had the pid has gone, though nobody said so.
  const auto before = living(pid);
  if (before != processes_.end()) end(before, boottime_ns);
  keep_within_limits();
  return processes_.insert_or_assign({pid, boottime_ns}, std::move(process)).first;
}

void MappingLog::end(Processes::iterator place, std::uint64_t boottime_ns) {
  place->second.exit_ns = boottime_ns;
  ended_.push_back({boottime_ns, place->first});
}

void MappingLog::on_fork(std::uint32_t pid, std::uint32_t tid, std::uint32_t parent, std::uint64_t boottime_ns) {
  auto old = living(parent);
  if (pid == parent) {
    const bool counted = old != processes_.end() && old->second.threads != 0;
    if (counted && tid != pid) ++old->second.threads;
    return;
  }
  // Kept from here on, so that it is known whether it changes what the child has inherited.
  if (old == processes_.end()) old = add(parent, boottime_ns, {.images = {LoggedImage{.begin_ns = boottime_ns}}});
  Process child{.forked = true, .parent = parent, .threads = 1, .images = {old->second.images.back()}};
  child.images.back().begin_ns = boottime_ns;
  child.images.back().changed_ns = 0;
  add(pid, boottime_ns, std::move(child));
}

void MappingLog::on_exec(std::uint32_t pid, std::uint64_t boottime_ns) {
  auto place = living(pid);
  if (place == processes_.end()) place = add(pid, boottime_ns, {});
  Process& process = place->second;
  process.threads = 1;  // exec ends the others, and takes the number of the first
  process.images.push_back({.begin_ns = boottime_ns, .mappings = std::make_shared<MappingList>(mappings_)});
  if (process.images.size() > kMostImages) process.images.erase(process.images.begin());
  if (process.images.size() > 1) ended_.push_back({boottime_ns, place->first});
}

void MappingLog::on_mapping(const TaskMapping& mapping) {
  const auto place = living(mapping.pid);
  // One that began before anybody listened is read from /proc.
  if (place == processes_.end()) return;
  const std::string_view build_id(reinterpret_cast<const char*>(mapping.build_id.data()), mapping.build_id.size());
  LoggedImage& image = place->second.images.back();
  image.add({.start = mapping.start,
             .end = mapping.end,
             .file_offset = mapping.file_offset,
             .boottime_ns = mapping.boottime_ns,
             .file = files_.of(
                 {.path = mapping.path, .build_id = build_id, .device = mapping.device, .inode = mapping.inode})});
  if (image.mappings && image.mappings->ranges().size() > kMostOfOne) image.mappings.reset();
}

void MappingLog::on_exit(std::uint32_t pid, std::uint32_t tid, std::uint64_t boottime_ns) {
  const auto place = living(pid);
  if (place == processes_.end()) return;
  Process& process = place->second;
  const bool last = process.threads == 0 ? tid == pid : --process.threads == 0;
  if (last) end(place, boottime_ns);
}

void MappingLog::on_lost(std::uint64_t since_ns, std::uint64_t /*until_ns*/) {
  ++losses_;
  std::erase_if(processes_,
                [=](const auto& entry) { return entry.second.exit_ns == 0 || entry.second.exit_ns > since_ns; });
}

// Up to whom it was told of, or who can be looked at, as long as nobody on the way changed anything since the fork.
MappingLog::Found MappingLog::inherited(Processes::const_iterator child, const ImageTag& image) const {
  for (std::size_t i = 0; i < kMostAncestors && child->second.forked; ++i) {
    const std::uint64_t forked_ns = child->first.second;
    const auto parent = at(child->second.parent, forked_ns);
    if (parent == processes_.end()) break;
    const LoggedImage& shared = image_at(parent->second, forked_ns);
    if (shared.changed_ns > forked_ns) break;
    if (shared.mappings) return {.image = shared.fits(image) ? &shared : nullptr};
    const bool same = &shared == &parent->second.images.back() && parent->second.exit_ns == 0;
    if (same) return {.same_as = parent->first.first};
    child = parent;
  }
  return {};
}

MappingLog::Found MappingLog::find(const ProcessKey& key, const ImageTag& image, std::uint64_t boottime_ns) const {
  // The first record of a process comes behind its start, and before any other process has its pid.
  const auto place = processes_.lower_bound({key.pid, key.start_boottime_ns});
  if (place == processes_.end() || place->first.first != key.pid || place->first.second > boottime_ns) return {};
  const Process& process = place->second;
  const bool ended = process.exit_ns != 0 && process.exit_ns < boottime_ns;
  const bool too_late = process.forked && place->first.second - key.start_boottime_ns > kForkTakesNs;
  if (ended || too_late) return {};
  const LoggedImage& found = image_at(process, boottime_ns);
  if (found.mappings) return {.image = found.fits(image) ? &found : nullptr};
  return found.changed_ns == 0 ? inherited(place, image) : Found{};
}

std::vector<std::uint32_t> MappingLog::ancestors(std::uint32_t pid, std::uint64_t boottime_ns) const {
  std::vector<std::uint32_t> pids;
  auto place = at(pid, boottime_ns);
  while (place != processes_.end() && place->second.forked && pids.size() < kMostAncestors) {
    place = at(place->second.parent, place->first.second);
    if (place != processes_.end() && place->second.exit_ns == 0) pids.push_back(place->first.first);
  }
  return pids;
}

const MappingList* MappingLog::adopt(std::uint32_t pid, const ImageTag& image, std::uint64_t start_ns,
                                     std::span<const MapRange> ranges) {
  const auto place = living(pid);
  if (place == processes_.end() || place->second.images.back().mappings) return nullptr;
  LoggedImage& known = place->second.images.back();
  known.tag = image;
  known.mappings = std::make_shared<MappingList>(mappings_);
  for (const MapRange& range : ranges) {
    known.mappings->add({.start = range.start,
                         .end = range.end,
                         .file_offset = range.file_offset,
                         .boottime_ns = start_ns,
                         .file = files_.of({.path = range.name, .device = range.device, .inode = range.inode})});
  }
  return known.mappings.get();
}

void MappingLog::forget_gone(std::uint64_t told_ns) {
  if (losses_ > losses_said_) {
    log::debug("what processes did was not told in full, {} times: those of then are read from /proc", losses_);
    losses_said_ = losses_;
  }
  const std::uint64_t before_ns = std::min(told_ns_, told_ns - std::min(told_ns, kSecondNs));
  told_ns_ = told_ns;
  for (; !ended_.empty() && ended_.front().boottime_ns < before_ns; ended_.pop_front()) {
    const auto place = processes_.find(ended_.front().key);
    if (place == processes_.end()) continue;
    Process& process = place->second;
    if (process.exit_ns != 0 && process.exit_ns < before_ns) {
      processes_.erase(place);
      continue;
    }
    while (process.images.size() > 1 && process.images[1].begin_ns < before_ns) {
      process.images.erase(process.images.begin());
    }
  }
  files_.drop_unused();
}

// An eighth at once, so that the search for the oldest is paid rarely.
void MappingLog::keep_within_limits() {
  while (processes_.size() >= limits_.processes || mappings_ >= limits_.mappings) {
    std::vector<std::uint64_t> begins;
    begins.reserve(processes_.size());
    for (const auto& [key, process] : processes_) begins.push_back(key.second);
    if (begins.empty()) return;
    const auto cut = begins.begin() + static_cast<std::ptrdiff_t>(begins.size() / 8);
    std::nth_element(begins.begin(), cut, begins.end());
    crowded_out_ += std::erase_if(processes_, [&](const auto& entry) { return entry.first.second <= *cut; });
  }
}

}  // namespace spanfold::proc
