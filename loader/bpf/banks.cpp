// SPDX-License-Identifier: Apache-2.0
#include "bpf/banks.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <vector>

#include "bpf/abi.h"

namespace spanfold::bpf {
namespace {

constexpr std::size_t kCounters = sizeof(sf_counters) / sizeof(std::uint64_t);
static_assert(kCounters <= 64, "Banks::seen_ holds them");

constexpr std::array<std::string_view, SF_DROP_COUNT> kDropNames = {"ring_full", "ring_busy", "no_scratch"};

// Names of the counters from SF_COUNT_NO_MAP on.
constexpr std::array<std::string_view, SF_COUNT_COUNT - SF_COUNT_NO_MAP> kSideNames = {
    "no_map",         "lone_busy",     "lone_crowd",
    "lone_full",      "stacks_sent",   "stacks_refused",
    "tables_taken",   "tables_short",  "rolls",
    "emit_refused",   "stale",         "unsampled",
    "unseen_ends",    "stay_crowd",    "hooked",
    "foreign",        "busy",          "evicted",
    "spent_ns",       "walk_no_user",  "walk_bottom",
    "walk_depth",     "walk_no_space", "walk_no_mapping",
    "walk_no_table",  "walk_no_rule",  "walk_unsupported",
    "walk_bad_frame", "walk_fault",    "walk_zero"};
static_assert(SF_COUNT_NO_MAP == 5, "the five fates come first");

// What a hook costs that runs for another map: too short to be timed one by one.
constexpr std::uint64_t kForeignNs = 30;

bool is_gone(std::uint32_t pid) { return kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH; }

ProcessKey key_of(const sf_process& process) {
  return {.start_boottime_ns = process.start_ns, .pid = process.tgid, .exec_id = process.exec_id};
}

}  // namespace

Banks::Banks(int counters_fd, int processes_fd) : counters_fd_(counters_fd), processes_fd_(processes_fd) {}

void Banks::use(int counters_fd, int processes_fd) {
  counters_fd_ = counters_fd;
  processes_fd_ = processes_fd;
}

Status Banks::read_counters(std::uint32_t bank, Bank& out) {
  const auto cpus = static_cast<std::size_t>(libbpf_num_possible_cpus());
  std::vector<sf_counters> values(cpus);
  if (bpf_map_lookup_elem(counters_fd_, &bank, values.data()) != 0) return errno_error("read the counters");
  std::array<std::uint64_t, kCounters> sum{};
  for (const sf_counters& value : values) {
    for (std::size_t i = 0; i < SF_COUNT_COUNT; ++i) sum[i] += value.count[i];
    for (std::size_t i = 0; i < SF_DROP_COUNT; ++i) sum[SF_COUNT_COUNT + i] += value.drop[i];
  }
  std::array<std::uint64_t, kCounters> fresh{};
  for (std::size_t i = 0; i < kCounters; ++i) fresh[i] = sum[i] - std::exchange(seen_[bank][i], sum[i]);
  out.ticks = fresh[SF_COUNT_TICKS];
  out.in_span = fresh[SF_COUNT_IN_SPAN];
  out.background = fresh[SF_COUNT_BACKGROUND];
  out.idle = fresh[SF_COUNT_IDLE];
  out.filtered = fresh[SF_COUNT_FILTERED];
  for (std::size_t i = 0; i < kSideNames.size(); ++i) out.side[std::string(kSideNames[i])] = fresh[SF_COUNT_NO_MAP + i];
  out.unsampled = fresh[SF_COUNT_UNSAMPLED];
  out.spent_ns = fresh[SF_COUNT_SPENT_NS] + fresh[SF_COUNT_FOREIGN] * kForeignNs;
  for (std::size_t i = 0; i < kDropNames.size(); ++i)
    out.dropped[std::string(kDropNames[i])] = fresh[SF_COUNT_COUNT + i];
  return ok();
}

Status Banks::read_shares(std::uint32_t bank, Bank& out) {
  constexpr std::uint32_t kBatch = 1024;
  std::vector<sf_process> keys(kBatch);
  std::vector<sf_background> values(kBatch);
  std::uint32_t position = 0;
  bool first = true;
  for (bool more = true; more; first = false) {
    std::uint32_t count = kBatch;
    std::uint32_t next = 0;
    if (bpf_map_lookup_batch(processes_fd_, first ? nullptr : &position, &next, keys.data(), values.data(), &count,
                             nullptr) != 0) {
      // ENOENT ends the walk, after what it filled in; a batch that one bucket overflows cannot happen below kBatch.
      if (errno != ENOENT) return errno_error("read the background of the processes");
      more = false;
    }
    position = next;
    for (std::uint32_t i = 0; i < count; ++i) {
      Share& share = shares_[key_of(keys[i])];
      const std::uint64_t ticks = values[i].ticks[bank];
      const std::uint64_t fresh = ticks - std::exchange(share.seen[bank], ticks);
      // A share of 0 still says that this process was busy.
      out.by_process.emplace_back(key_of(keys[i]), fresh);
      if (values[i].carrier != 0) out.carriers.push_back(key_of(keys[i]));
    }
  }
  std::sort(out.by_process.begin(), out.by_process.end());
  std::sort(out.carriers.begin(), out.carriers.end());
  return ok();
}

// A process is taken out of the map at the second look after its end: both banks have then been read since.
void Banks::forget_gone() {
  // Of a pid's identities only the last can still run: the others were replaced by exec, or ended and were reused.
  std::map<std::uint32_t, ProcessKey> last;
  for (const auto& [key, share] : shares_) last[key.pid] = std::max(last[key.pid], key);
  for (auto it = shares_.begin(); it != shares_.end();) {
    auto next = std::next(it);
    const ProcessKey key = it->first;
    const bool dead = is_gone(key.pid) || key != last[key.pid];
    if (it->second.gone) {
      const sf_process process{.start_ns = key.start_boottime_ns, .tgid = key.pid, .exec_id = key.exec_id};
      bpf_map_delete_elem(processes_fd_, &process);
      shares_.erase(it);
    } else {
      it->second.gone = dead;
    }
    it = next;
  }
}

Result<Bank> Banks::read(std::uint32_t epoch) {
  Bank bank;
  bank.epoch = epoch;
  if (Status read = read_counters(epoch & 1, bank); !read) return read.error();
  if (Status read = read_shares(epoch & 1, bank); !read) return read.error();
  forget_gone();
  return bank;
}

}  // namespace spanfold::bpf
