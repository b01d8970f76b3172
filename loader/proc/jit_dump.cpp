// SPDX-License-Identifier: Apache-2.0
#include "proc/jit_dump.h"

#include <cstring>
#include <limits>

namespace spanfold::proc {
namespace {

struct FileHeader {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t total_size;
  std::uint32_t elf_machine;
  std::uint32_t padding;
  std::uint32_t pid;
  std::uint64_t timestamp;
  std::uint64_t flags;
};
static_assert(sizeof(FileHeader) == 40);

struct RecordHeader {
  std::uint32_t id;
  std::uint32_t total_size;
  std::uint64_t timestamp;
};
static_assert(sizeof(RecordHeader) == 16);

struct Load {
  RecordHeader header;
  std::uint32_t pid;
  std::uint32_t tid;
  std::uint64_t virtual_address;
  std::uint64_t code_address;
  std::uint64_t code_size;
  std::uint64_t code_index;
};
static_assert(sizeof(Load) == 56);

struct Move {
  RecordHeader header;
  std::uint32_t pid;
  std::uint32_t tid;
  std::uint64_t virtual_address;
  std::uint64_t old_code_address;
  std::uint64_t new_code_address;
  std::uint64_t code_size;
  std::uint64_t code_index;
};
static_assert(sizeof(Move) == 64);

constexpr std::uint32_t kMagic = 0x4A695444;  // "JiTD"; in the other byte order it reads differently
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kLoadId = 0;
constexpr std::uint32_t kMoveId = 1;

template <typename T>
std::optional<T> front(std::string_view bytes) {
  if (bytes.size() < sizeof(T)) return {};
  std::optional<T> value{T{}};
  std::memcpy(&*value, bytes.data(), sizeof(T));
  return value;
}

bool is_sound(std::uint64_t address, std::uint64_t size) {
  return size > 0 && size <= std::numeric_limits<std::uint32_t>::max() &&
         address < std::numeric_limits<std::uint64_t>::max() - size;
}

}  // namespace

std::optional<std::uint64_t> JitDump::take_header(std::string_view piece) const {
  const auto header = front<FileHeader>(piece);
  if (!header) return 0;
  const bool sound = header->magic == kMagic && header->version == kVersion && header->pid == inner_pid_ &&
                     header->total_size >= sizeof(FileHeader);
  return sound ? std::optional<std::uint64_t>(header->total_size) : std::nullopt;
}

void JitDump::take_load(std::string_view body, std::uint32_t offset, JitTable& table) {
  const auto load = front<Load>(body);
  if (load && is_sound(load->code_address, load->code_size)) {
    table.add({load->code_address, static_cast<std::uint32_t>(load->code_size), offset});
  }
}

void JitDump::take_move(std::string_view body, std::uint32_t offset, JitTable& table) {
  const auto move = front<Move>(body);
  if (!move || !is_sound(move->new_code_address, move->code_size)) return;
  // What cannot be traced to a load takes the place all the same: what was there before has gone.
  const JitCode* from = ++moves_ <= kMaxMoves ? table.find_latest(move->old_code_address) : nullptr;
  if (from != nullptr) loads_[offset] = named_at(*from);
  table.add({move->new_code_address, static_cast<std::uint32_t>(move->code_size), offset});
}

std::optional<std::uint64_t> JitDump::take(std::string_view piece, std::uint32_t offset, JitTable& table) {
  std::uint64_t taken = 0;
  if (offset == 0) {
    const auto header = take_header(piece);
    if (!header || *header == 0) return header;
    taken = *header;
  }
  while (taken < piece.size()) {
    const std::string_view rest = piece.substr(taken);
    const auto record = front<RecordHeader>(rest);
    if (!record) break;
    if (record->total_size < sizeof(RecordHeader)) return {};
    // The part that counts may not be there yet; the rest of the record need not be.
    const std::size_t counts = record->id == kLoadId ? sizeof(Load) : record->id == kMoveId ? sizeof(Move) : 0;
    if (counts > record->total_size) return {};
    if (counts > rest.size()) break;
    const auto where = static_cast<std::uint32_t>(offset + taken);
    if (record->id == kLoadId) take_load(rest, where, table);
    if (record->id == kMoveId) take_move(rest, where, table);
    taken += record->total_size;
  }
  return taken;
}

std::uint32_t JitDump::named_at(const JitCode& code) const {
  const auto load = loads_.find(code.where);
  return load == loads_.end() ? code.where : load->second;
}

std::string_view JitDump::name(std::string_view text, const JitCode& code) const {
  const auto load = front<Load>(text);
  if (!load || load->header.id != kLoadId || load->code_size < code.bytes) return {};
  text = text.substr(0, load->header.total_size);
  text.remove_prefix(std::min(text.size(), sizeof(Load)));
  const std::size_t end = text.find('\0');
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end);
}

}  // namespace spanfold::proc
