// SPDX-License-Identifier: Apache-2.0
#include "proc/build_id.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "proc/sha256.h"

namespace spanfold::proc {
namespace {

constexpr std::size_t kMaxGnuIdBytes = 64;
constexpr std::size_t kMaxGoIdBytes = 256;
constexpr std::uint32_t kGoBuildIdNote = 4;  // type of Go's "Go" note, cmd/internal/buildid
constexpr std::size_t kHashedBytes = 4096;

constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

template <std::size_t Size>
std::string_view text_of(const std::array<std::uint8_t, Size>& bytes, std::size_t length) {
  return {reinterpret_cast<const char*>(bytes.data()), length};
}

void take_note(std::uint32_t type, std::string_view owner, std::string_view value, BuildIds& ids) {
  if (value.empty()) return;
  const bool gnu = owner == std::string_view("GNU\0", 4) && type == NT_GNU_BUILD_ID;
  if (gnu && ids.gnu.empty() && value.size() <= kMaxGnuIdBytes) ids.gnu = to_hex(value);
  const bool go = owner == std::string_view("Go\0\0", 4) && type == kGoBuildIdNote;
  if (go && ids.go.empty() && value.size() <= kMaxGoIdBytes) ids.go = value;
}

}  // namespace

void collect_notes(std::string_view notes, std::uint64_t alignment, BuildIds& ids) {
  const std::uint64_t pad = alignment == 8 ? 8 : 4;
  std::uint64_t at = 0;
  while (at < notes.size() && notes.size() - at >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr header;
    std::memcpy(&header, notes.data() + at, sizeof header);
    const std::uint64_t owner_at = at + sizeof header;
    const std::uint64_t value_at = align_up(owner_at + header.n_namesz, pad);
    const std::uint64_t end = value_at + header.n_descsz;
    if (end > notes.size()) return;
    take_note(header.n_type, notes.substr(owner_at, header.n_namesz), notes.substr(value_at, header.n_descsz), ids);
    at = align_up(end, pad);
  }
}

std::string htlhash_of_file(const ByteSource& source) {
  const std::uint64_t length = source.size();
  if (length == 0) return {};
  const std::size_t part = std::min<std::uint64_t>(length, kHashedBytes);
  std::string input(2 * part + sizeof length, '\0');
  const std::span<char> bytes(input);
  if (!source.read_exactly(0, bytes.subspan(0, part))) return {};
  if (!source.read_exactly(length - part, bytes.subspan(part, part))) return {};
  for (std::size_t i = 0; i < sizeof length; ++i) {
    input[2 * part + i] = static_cast<char>(length >> (8 * (sizeof length - 1 - i)));
  }
  return to_hex(text_of(sha256(input), 16));
}

std::string htlhash_of_build_id(std::string_view build_id_hex) {
  if (build_id_hex.empty()) return {};
  return to_hex(text_of(fnv1a_128(build_id_hex), 16));
}

}  // namespace spanfold::proc
