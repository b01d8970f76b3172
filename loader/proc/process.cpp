// SPDX-License-Identifier: Apache-2.0
#include "proc/process.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/clock.h"
#include "proc/attributes.h"
#include "proc/identity.h"
#include "proc/java_options.h"
#include "proc/jit_names.h"
#include "proc/procfs.h"
#include "proc/read_maps.h"

namespace spanfold::proc {
namespace {

constexpr std::uint64_t kMillisecondNs = 1'000'000;
constexpr std::uint64_t kFirstPauseNs = 100 * kMillisecondNs;
constexpr std::uint64_t kLongestPauseNs = 10'000 * kMillisecondNs;
// A library may be closed and another one mapped at its place: known mappings are believed this long, and longer where
// reading them is dear.
constexpr std::uint64_t kBelieveNs = 10'000 * kMillisecondNs;
constexpr std::uint64_t kBelieveTimesCost = 1000;
constexpr std::uint64_t kRetryNs = 1000 * kMillisecondNs;

bool is_elf(const Binary& binary) {
  std::array<char, SELFMAG> magic{};
  return binary.source().read_exactly(0, magic) && std::string_view(magic.data(), magic.size()) == ELFMAG;
}

const Mapping* plain_mapping(const MapRange& range, Interner& interner) {
  return interner.mapping({.memory_start = range.file_offset,
                           .memory_limit = range.file_offset + (range.end - range.start),
                           .file_offset = range.file_offset,
                           .filename = range.name});
}

}  // namespace

bool Process::prepare(const ImageTag& image, Shared& shared) {
  idle_.used = true;
  const std::uint64_t now_ns = boot_clock_ns();
  if (known_ && image_ == image) {
    const std::uint64_t believe_ns = std::max(kBelieveNs, kBelieveTimesCost * read_cost_ns_);
    // What was right stays, also where the process has gone since.
    if (now_ns - read_ns_ >= believe_ns) read(image, shared);
  } else {
    if (failed_image_ == image && now_ns - read_ns_ < kRetryNs && read_ns_ != 0) return false;
    if (!read(image, shared)) return false;
  }
  look_for_jit_logs(shared.jit);
  return true;
}

bool Process::look_again(const ImageTag& image, Shared& shared) {
  const std::uint64_t now_ns = boot_clock_ns();
  if (!known_ || now_ns < look_again_after_ns_) return false;
  const std::uint64_t pause_ns = now_ns - read_ns_;
  if (pause_ns < kFirstPauseNs) return false;
  look_again_after_ns_ = now_ns + std::clamp(2 * pause_ns, kFirstPauseNs, kLongestPauseNs);
  return read(image, shared);
}

// Of a process that is gone there is no more than what it was.
ProcessAttributes Process::attributes_of(const Told& told) const {
  if (const Fd folder = open_process_folder(key_.pid)) {
    ProcessAttributes attributes = read_attributes(folder.get());
    const auto stat = read_stat(folder.get());
    if (stat && is_same_image(*stat, key_, told.image)) return attributes;
  }
  if (told.program.empty()) return {};
  return {{"process.executable.name", told.program.substr(told.program.rfind('/') + 1)},
          {"process.executable.path", told.program}};
}

void Process::take(Told told, Shared& shared) {
  if (!known_ || image_ != told.image) {
    attributes_ = attributes_of(told);
    jit_ = {};
    bare_jit_.reset();
  }
  jit_.set_signs(std::move(told.signs));
  set_regions(std::move(told.regions));
  image_ = told.image;
  known_ = true;
  told_ns_ = told.changed_ns;
  read_ns_ = boot_clock_ns();
  if (!told.whole) read(image_, shared);
}

// The order makes a concurrent exec harmless. An open maps file stays with the address space it was opened on; the
// sample proves that `image` was in force before that; so if it still is at the end, everything between is of it.
bool Process::read(const ImageTag& image, Shared& shared) {
  const std::uint64_t begin_ns = boot_clock_ns();
  read_ns_ = begin_ns;
  failed_image_ = image;
  const Fd folder = open_process_folder(key_.pid);
  if (!folder) return false;
  const auto ranges = read_maps(folder.get());
  if (!ranges) return false;
  std::vector<Region> regions;
  JitSymbols::Signs signs;
  for (const MapRange& range : *ranges) {
    regions.push_back(region_of(range, folder.get(), shared));
    judge(range, regions.back(), signs, shared.interner);
  }
  const bool first = !known_ || image_ != image;
  ProcessAttributes attributes = first ? read_attributes(folder.get()) : attributes_;
  const auto stat = read_stat(folder.get());
  if (!stat || !is_same_image(*stat, key_, image)) return false;
  if (first) {
    jit_ = {};
    bare_jit_.reset();
  }
  jit_.set_signs(std::move(signs));
  set_regions(std::move(regions));
  attributes_ = std::move(attributes);
  image_ = image;
  known_ = true;
  read_cost_ns_ = boot_clock_ns() - begin_ns;
  return true;
}

bool Process::generates_without_frame_pointers() const {
  constexpr std::size_t kMostBytes = 1UL << 20;
  const Fd folder = open_process_folder(key_.pid);
  if (!folder) return true;
  return !keeps_java_frame_pointers(read_at(folder.get(), "cmdline", kMostBytes).value_or(""),
                                    read_at(folder.get(), "environ", kMostBytes).value_or(""));
}

void Process::set_regions(std::vector<Region> regions) {
  const bool same = std::equal(regions.begin(), regions.end(), regions_.begin(), regions_.end(),
                               [](const Region& a, const Region& b) {
                                 return a.start == b.start && a.end == b.end && a.file_offset == b.file_offset &&
                                        a.binary == b.binary && a.generated == b.generated;
                               });
  regions_ = std::move(regions);
  const bool looks = !bare_jit_ && jit_.type() == FrameType::kJvm;
  if (looks) bare_jit_ = generates_without_frame_pointers();
  if (!same || looks || code_version_ == 0) ++code_version_;
}

std::vector<CodeRange> Process::code() const {
  std::vector<CodeRange> code;
  for (const Region& region : regions_) {
    CodeRange range{.start = region.start, .end = region.end};
    if (region.generated && !bare_jit_.value_or(false)) range.kind = CodeRange::Kind::kGenerated;
    if (region.plain != nullptr && region.plain->filename == "[uprobes]") range.kind = CodeRange::Kind::kUprobes;
    if (region.binary && !region.generated) {
      const auto address = region.binary->address_of(region.file_offset, region.end - region.start);
      if (address) {
        range.kind = CodeRange::Kind::kFile;
        range.address = *address;
        range.file = region.binary->shared_source();
      }
    }
    code.push_back(std::move(range));
  }
  return code;
}

Process::Region Process::region_of(const MapRange& range, int folder, Shared& shared) const {
  Region region{.start = range.start,
                .end = range.end,
                .file_offset = range.file_offset,
                .device = range.device,
                .inode = range.inode};
  if (range.is_vdso()) region.binary = shared.binaries.of_vdso(folder, range);
  if (!range.has_file()) return region;
  const Region* before = region_at(range.start);
  const bool same = before != nullptr && before->binary && before->start == range.start && before->end == range.end &&
                    before->file_offset == range.file_offset && before->device == range.device &&
                    before->inode == range.inode;
  region.binary = same ? before->binary : shared.binaries.of_file(folder, range);
  return region;
}

// No binary, and not generated: a file that could not be opened, "[uprobes]", "[vsyscall]", an executable stack.
void Process::judge(const MapRange& range, Region& region, JitSymbols::Signs& signs, Interner& interner) {
  region.generated = region.binary ? range.has_file() && !is_elf(*region.binary) : range.is_memory();
  if (region.generated && range.is_memory()) region.binary.reset();
  if (!region.binary && !region.generated) region.plain = plain_mapping(range, interner);
  signs.generates = signs.generates || region.generated;
  if (signs.type == FrameType::kNative) signs.type = type_by_mapping(range.name);
  if (range.is_jit_dump()) signs.dump = range;
}

// A look at /proc takes the order of read(): what was opened counts only if the process is still the same at the end.
void Process::look_for_jit_logs(JitBudget& budget) {
  const std::uint64_t now_ns = boot_clock_ns();
  if (!jit_.wants_look(now_ns)) return;
  const Fd folder = open_process_folder(key_.pid);
  if (!folder) return;
  JitSymbols::Found found = jit_.look(folder.get(), now_ns, budget);
  const auto stat = read_stat(folder.get());
  if (stat && is_same_image(*stat, key_, image_)) jit_.adopt(std::move(found));
}

std::uint64_t Process::names_version(Shared& shared) {
  look_for_jit_logs(shared.jit);
  jit_.read_new(boot_clock_ns());
  return jit_.changes();
}

std::optional<JitName> Process::jit_name(std::uint64_t address, Shared& shared) {
  look_for_jit_logs(shared.jit);
  return jit_.find(address, boot_clock_ns(), shared.interner);
}

const Process::Region* Process::region_at(std::uint64_t address) const {
  const auto next = std::upper_bound(regions_.begin(), regions_.end(), address,
                                     [](std::uint64_t value, const Region& region) { return value < region.start; });
  if (next == regions_.begin() || address >= (next - 1)->end) return nullptr;
  return &*(next - 1);
}

}  // namespace spanfold::proc
