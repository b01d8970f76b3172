// SPDX-License-Identifier: Apache-2.0
#include "proc/debug_file.h"

#include <lzma.h>

#include <algorithm>
#include <array>

#include "proc/root_file.h"

namespace spanfold::proc {
namespace {

constexpr std::string_view kDebugFolder = "/usr/lib/debug";
constexpr std::uint64_t kMostCheckedBytes = 512UL << 20;  // by CRC: all of it is read, about a GB/s
constexpr std::size_t kMostNameBytes = 255;               // NAME_MAX

std::optional<std::uint32_t> crc_of(const ByteSource& source) {
  if (source.size() > kMostCheckedBytes) return {};
  std::string piece(256UL * 1024, '\0');
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < source.size();) {
    const std::size_t want = std::min<std::uint64_t>(piece.size(), source.size() - at);
    if (!source.read_exactly(at, std::span(piece).first(want))) return {};
    crc = lzma_crc32(reinterpret_cast<const std::uint8_t*>(piece.data()), want, crc);
    at += want;
  }
  return crc;
}

bool has_symbols(const ElfFile& elf) {
  const auto sections = elf.sections();
  return std::any_of(sections.begin(), sections.end(),
                     [](const Elf64_Shdr& section) { return section.sh_type == SHT_SYMTAB; });
}

void open_candidate(int process_folder, const std::string& path, std::optional<std::uint32_t> crc,
                    std::vector<DebugCandidate>& candidates) {
  // Distributions link from the build id to the file by name.
  auto file = open_in_root(process_folder, path, LastLink::kFollowed);
  if (!file || file->status.st_size == 0) return;
  candidates.push_back({std::make_shared<FileSource>(std::move(file->fd), file->status), crc});
}

bool belongs(const DebugCandidate& candidate, const ElfFile& elf) {
  const auto debug = ElfFile::read(*candidate.source);
  if (!debug || !debug->is_laid_out_as(elf)) return false;
  const std::string& ours = elf.build_ids().gnu;
  const std::string& theirs = debug->build_ids().gnu;
  const bool both = !ours.empty() && !theirs.empty();
  if (both && ours != theirs) return false;
  return candidate.crc ? crc_of(*candidate.source) == candidate.crc : both;
}

}  // namespace

std::optional<DebugLink> read_debug_link(const ElfFile& elf, const ByteSource& source) {
  const auto section = elf.section_named(".gnu_debuglink");
  if (!section) return {};
  std::string bytes(std::min<std::uint64_t>(section->sh_size, kMostNameBytes + 8), '\0');
  bytes.resize(source.read_some(section->sh_offset, bytes));
  const std::size_t end = bytes.find('\0');
  DebugLink link;
  const std::size_t crc_at = (end + sizeof link.crc) / sizeof link.crc * sizeof link.crc;
  if (end == std::string::npos || crc_at + sizeof link.crc > bytes.size()) return {};
  link.name = bytes.substr(0, end);
  std::memcpy(&link.crc, bytes.data() + crc_at, sizeof link.crc);
  if (link.name.empty() || link.name == "." || link.name == ".." || link.name.find('/') != std::string::npos) return {};
  return link;
}

bool has_debug_lines(const ElfFile& elf) {
  return elf.section_named(".debug_info").has_value() || elf.section_named(".zdebug_info").has_value();
}

std::vector<DebugCandidate> open_debug_candidates(int process_folder, const std::string& path, const ElfFile& elf,
                                                  const ByteSource& source, bool lines) {
  std::vector<DebugCandidate> candidates;
  if (has_symbols(elf) && (!lines || has_debug_lines(elf))) return candidates;
  constexpr std::size_t kFolderDigits = 2;
  const std::string& id = elf.build_ids().gnu;
  if (id.size() > kFolderDigits) {
    const std::string file = id.substr(0, kFolderDigits) + "/" + id.substr(kFolderDigits) + ".debug";
    open_candidate(process_folder, std::string(kDebugFolder) + "/.build-id/" + file, {}, candidates);
  }
  const auto link = read_debug_link(elf, source);
  if (!link || !path.starts_with('/')) return candidates;
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  for (const std::string& place : {folder, folder + ".debug/", std::string(kDebugFolder) + folder}) {
    open_candidate(process_folder, place + link->name, link->crc, candidates);
  }
  return candidates;
}

std::shared_ptr<const ByteSource> choose_debug_file(const std::vector<DebugCandidate>& candidates, const ElfFile& elf) {
  const auto chosen = std::find_if(candidates.begin(), candidates.end(),
                                   [&](const DebugCandidate& candidate) { return belongs(candidate, elf); });
  return chosen == candidates.end() ? nullptr : chosen->source;
}

}  // namespace spanfold::proc
