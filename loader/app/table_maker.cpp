// SPDX-License-Identifier: Apache-2.0
#include "app/table_maker.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "proc/v8_file.h"
#include "unwind/cfi.h"
#include "unwind/go.h"

namespace spanfold::app {
namespace {

// What V8 compiled when the file was built is a megabyte and more without a word on how to unwind it. Smaller gaps may
// be anything.
constexpr std::uint32_t kLeastV8Bytes = 64U * 1024;

void keep_frame_pointers(UnwindTable& table, std::uint32_t least_bytes) {
  const auto rule = static_cast<std::uint32_t>(table.rules.size());
  table.rules.push_back(kFramePointerRule);
  for (std::size_t i = 0; i + 1 < table.rows.size(); ++i) {
    UnwindRow& row = table.rows[i];
    const bool unknown = table.rules[row.rule].cfa == Cfa::kNone;
    if (unknown && table.rows[i + 1].start - row.start >= least_bytes) row.rule = rule;
  }
}

std::optional<UnwindTable> table_of(const proc::ByteSource& file) {
  auto table = unwind::read_table(file);
  if (auto go = unwind::read_go_table(file)) return table ? unwind::laid_over(*table, *go) : *go;
  if (table && proc::embeds_v8(file)) keep_frame_pointers(*table, kLeastV8Bytes);
  return table;
}

}  // namespace

TableMaker::~TableMaker() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

Status TableMaker::start() {
  ready_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ready_) return errno_error("make an eventfd");
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return ok();
}

void TableMaker::want(std::shared_ptr<const proc::ByteSource> file) {
  {
    const std::lock_guard lock(mutex_);
    wanted_.push_back(std::move(file));
  }
  wake_.notify_one();
}

std::vector<TableMaker::Made> TableMaker::take() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(ready_.get(), &count, sizeof count);
  const std::lock_guard lock(mutex_);
  return std::exchange(made_, {});
}

void TableMaker::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || !wanted_.empty(); });
    if (stop_) return;
    Made made{.file = std::move(wanted_.front())};
    wanted_.pop_front();
    lock.unlock();
    made.table = table_of(*made.file);
    if (!made.file->unchanged()) made.table.reset();
    lock.lock();
    made_.push_back(std::move(made));
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(ready_.get(), &one, sizeof one);
  }
}

}  // namespace spanfold::app
