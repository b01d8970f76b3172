// SPDX-License-Identifier: Apache-2.0
#include "proc/jit_symbols.h"

#include <fmt/format.h>

#include <utility>

#include "proc/identity.h"
#include "proc/jit_names.h"
#include "proc/open_mapped.h"
#include "proc/root_file.h"

namespace spanfold::proc {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::uint64_t kLookNs = kSecondNs;
constexpr std::uint64_t kLookAgainNs = 10 * kSecondNs;

}  // namespace

bool JitSymbols::wants_look(std::uint64_t now_ns) const {
  if (!signs_.generates) return false;
  bool settled = has_logs();
  for (const Held& held : held_) settled = settled && !(held.log && held.log->has_no_link());
  return looked_ns_ == 0 || now_ns - looked_ns_ >= (settled ? kLookAgainNs : kLookNs);
}

JitSymbols::Found JitSymbols::look(int process_folder, std::uint64_t now_ns, JitBudget& budget) {
  looked_ns_ = now_ns;
  Found found;
  const auto status = read_status(process_folder);
  if (!status) return found;
  auto map = open_in_root(process_folder, fmt::format("/tmp/perf-{}.map", status->inner_pid));
  const bool own = map && (map->status.st_uid == 0 || map->status.st_uid == status->user_id);
  const bool held = map && held_[1].log && held_[1].log->is_file(map->status);
  if (own && !held && budget.files_left > 0) {
    found.map =
        std::make_unique<JitLog>(JitLog::Form::kPerfMap, std::move(map->fd), map->status, status->inner_pid, budget);
  }
  if (!signs_.dump || held_[0].log || budget.files_left == 0) return found;
  auto dump = open_mapped(process_folder, *signs_.dump);
  if (dump) {
    found.dump =
        std::make_unique<JitLog>(JitLog::Form::kJitDump, std::move(dump->fd), dump->status, status->inner_pid, budget);
  }
  return found;
}

void JitSymbols::adopt(Found found) {
  const auto take = [&](Held& held, std::unique_ptr<JitLog> log) {
    if (!log) return;
    before_ += 1 + (held.log ? held.log->changes() : 0);
    held = {.log = std::move(log)};
  };
  take(held_[0], std::move(found.dump));
  take(held_[1], std::move(found.map));
}

std::optional<JitName> JitSymbols::find_in(Held& held, std::uint64_t address, Interner& interner) const {
  const JitCode* code = held.log->find(address);
  if (code == nullptr) return {};
  if (held.edition != held.log->edition()) {
    held.names.clear();
    held.edition = held.log->edition();
  }
  const auto known = held.names.find(code->where);
  if (known != held.names.end()) return known->second;
  const std::string raw = held.log->name_of(*code);
  if (raw.empty()) return {};
  const JitName name{interner.name(shown_name(raw)), type_by_name(raw, signs_.type)};
  held.names.emplace(code->where, name);
  return name;
}

void JitSymbols::read_new(std::uint64_t now_ns) {
  for (const Held& held : held_) {
    if (held.log) held.log->read_new(now_ns);
  }
}

std::optional<JitName> JitSymbols::find(std::uint64_t address, std::uint64_t now_ns, Interner& interner) {
  read_new(now_ns);
  for (Held& held : held_) {
    if (!held.log) continue;
    const auto name = find_in(held, address, interner);
    if (name) return name;
  }
  return {};
}

std::uint64_t JitSymbols::changes() const {
  std::uint64_t changes = before_;
  for (const Held& held : held_) changes += held.log ? held.log->changes() : 0;
  return changes;
}

std::size_t JitSymbols::memory_bytes() const {
  std::size_t bytes = 0;
  for (const Held& held : held_) bytes += held.log ? held.log->memory_bytes() : 0;
  return bytes;
}

}  // namespace spanfold::proc
