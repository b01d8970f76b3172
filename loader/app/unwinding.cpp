// SPDX-License-Identifier: Apache-2.0
#include "app/unwinding.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace spanfold::app {

Status Unwinding::use(bpf::UnwindStore& store) {
  store_ = &store;
  return maker_.start();
}

void Unwinding::use_files(const ProcessKey& process, const Space& space) {
  for (const proc::CodeRange& code : space.code) {
    if (!code.file) continue;
    const auto [place, added] = files_.try_emplace(code.file.get());
    File& file = place->second;
    if (added) {
      file.source = code.file;
      maker_.want(code.file);
    }
    file.users.insert(process);
    file.used_in = flush_;
  }
}

void Unwinding::prepare(std::span<const std::shared_ptr<const proc::ByteSource>> files) {
  for (const auto& source : files) {
    const auto [place, added] = files_.try_emplace(source.get());
    if (!added) continue;
    place->second.source = source;
    place->second.used_in = flush_;
    maker_.want(source);
  }
}

void Unwinding::look(const ProcessKey& process) {
  if (store_ == nullptr) return;
  const std::uint64_t version = symbolizer_.code_version(process);
  Space& space = spaces_[process];
  const bool news = version != space.code_version;
  if (news) {
    const Space old = std::exchange(space, {version, symbolizer_.code_of(process)});
    leave(process, old);
  }
  use_files(process, space);
  if (news) tell(process, space);
}

void Unwinding::note_use(const ProcessKey& process) {
  const auto space = spaces_.find(process);
  if (space != spaces_.end()) use_files(process, space->second);
}

void Unwinding::tell(const ProcessKey& process, const Space& space) {
  std::vector<bpf::UnwindRange> ranges;
  for (const proc::CodeRange& code : space.code) add_ranges(code, ranges);
  if (!store_->set_space(process, ranges)) say_full("mappings of code");
}

void Unwinding::say_full(std::string_view what) {
  if (std::exchange(said_full_, true)) return;
  log::warning("stacks of some processes stay incomplete, and say so: there is no room for all {}", what);
}

void Unwinding::add_ranges(const proc::CodeRange& code, std::vector<bpf::UnwindRange>& ranges) {
  using Kind = bpf::UnwindRange::Kind;
  const auto plain = [&](Kind kind) {
    ranges.push_back({.start = code.start, .bytes = code.end - code.start, .kind = kind});
  };
  if (code.kind == proc::CodeRange::Kind::kGenerated) return plain(Kind::kFramePointer);
  if (code.kind == proc::CodeRange::Kind::kUprobes) return plain(Kind::kUprobes);
  const auto file = code.file ? files_.find(code.file.get()) : files_.end();
  if (file == files_.end() || file->second.state == File::State::kNone) return plain(Kind::kNoRule);
  if (file->second.state == File::State::kWaiting) return plain(Kind::kNoTable);
  add_file_ranges(code, file->second, ranges);
}

// The parts of the file's table that lie in the mapping, and what lies between them.
void Unwinding::add_file_ranges(const proc::CodeRange& code, const File& file, std::vector<bpf::UnwindRange>& ranges) {
  using Kind = bpf::UnwindRange::Kind;
  std::uint64_t at = code.start;
  const std::uint64_t shift = code.start - code.address;
  const auto bare_until = [&](std::uint64_t end) {
    if (end > at) ranges.push_back({.start = at, .bytes = end - at, .kind = Kind::kNoRule});
  };
  for (const bpf::UnwindSection& section : file.sections) {
    const std::uint64_t begin = std::max(section.begin + shift, at);
    const std::uint64_t end = std::min(section.end + shift, code.end);
    if (begin >= end) continue;
    bare_until(begin);
    ranges.push_back({.start = begin,
                      .bytes = end - begin,
                      .kind = Kind::kTable,
                      .section = section.number,
                      .serial = section.serial,
                      .text = static_cast<std::uint32_t>(begin - shift - section.begin)});
    at = end;
  }
  bare_until(code.end);
}

// Where there is none, a table has to go that no sample has needed for a while; what it leaves can be used after the
// next grace period.
void Unwinding::make_room() {
  auto oldest = files_.end();
  for (auto file = files_.begin(); file != files_.end(); ++file) {
    const bool may_go = !file->second.sections.empty() && file->second.used_in + 1 < flush_;
    if (may_go && (oldest == files_.end() || file->second.used_in < oldest->second.used_in)) oldest = file;
  }
  if (oldest == files_.end()) return say_full("tables of unwinding");
  store_->remove(oldest->second.sections);
  files_.erase(oldest);
}

void Unwinding::put(File& file) {
  auto sections = store_->add(*file.pending);
  if (!sections) return make_room();
  file.pending.reset();
  file.state = sections->empty() ? File::State::kNone : File::State::kReady;
  file.sections = *std::move(sections);
  for (const ProcessKey& user : file.users) {
    const auto space = spaces_.find(user);
    if (space != spaces_.end()) tell(user, space->second);
  }
}

void Unwinding::take_tables() {
  for (TableMaker::Made& made : maker_.take()) {
    const auto place = files_.find(made.file.get());
    if (place == files_.end()) continue;
    place->second.pending = made.table ? *std::move(made.table) : UnwindTable{};
    put(place->second);
  }
}

void Unwinding::leave(const ProcessKey& process, const Space& space) {
  for (const proc::CodeRange& code : space.code) {
    const auto file = code.file ? files_.find(code.file.get()) : files_.end();
    if (file != files_.end()) file->second.users.erase(process);
  }
}

void Unwinding::end_flush() {
  if (store_ == nullptr) return;
  std::erase_if(spaces_, [this](const auto& entry) {
    if (symbolizer_.code_version(entry.first) != 0) return false;
    store_->remove_space(entry.first);
    leave(entry.first, entry.second);
    return true;
  });
  ++flush_;
  // They hold files open.
  constexpr std::uint32_t kKeptFlushes = 12;
  std::erase_if(files_, [this](const auto& entry) {
    const File& file = entry.second;
    if (!file.users.empty() || file.used_in + kKeptFlushes > flush_ || file.state == File::State::kWaiting)
      return false;
    store_->remove(file.sections);
    return true;
  });
  // One at a time: each may have to wait for another one to go.
  const auto pending =
      std::find_if(files_.begin(), files_.end(), [](const auto& entry) { return entry.second.pending.has_value(); });
  if (pending != files_.end()) put(pending->second);
}

}  // namespace spanfold::app
