// SPDX-License-Identifier: Apache-2.0
// Keeps the kernel side told of what it needs to walk stacks: which code the processes have that are in spans, and the
// rules of their files, which a thread of its own makes of call-frame information.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "app/table_maker.h"
#include "base/process.h"
#include "base/unwind.h"
#include "bpf/unwind_store.h"
#include "proc/symbolizer.h"

namespace spanfold::app {

class Unwinding {
 public:
  explicit Unwinding(const proc::Symbolizer& symbolizer) : symbolizer_(symbolizer) {}

  // Nothing is told before.
  Status use(bpf::UnwindStore& store);

  // Makes tables of files ahead of the first process that is seen with them.
  void prepare(std::span<const std::shared_ptr<const proc::ByteSource>> files);
  // A stack of a process came that the symbolizer knows: tells what code the process has if that is news.
  void look(const ProcessKey& process);
  // The process has samples in the window at hand.
  void note_use(const ProcessKey& process);

  // Readable when tables are ready: take_tables() then. -1: before use().
  [[nodiscard]] int tables_fd() const { return maker_.fd(); }
  void take_tables();

  // After a flush, and with that after a grace period: takes back what is told of processes that the symbolizer has
  // forgotten, and puts tables where others made room for them.
  void end_flush();

 private:
  using FileKey = const proc::ByteSource*;
  struct File {
    std::shared_ptr<const proc::ByteSource> source;
    enum class State : std::uint8_t { kWaiting, kReady, kNone } state = State::kWaiting;
    std::vector<bpf::UnwindSection> sections;
    std::optional<UnwindTable> pending;  // made, and there is no room yet
    std::set<ProcessKey> users;
    std::uint32_t used_in = 0;  // the flush it was last used in
  };
  struct Space {
    std::uint64_t code_version = 0;
    std::vector<proc::CodeRange> code;
  };

  void tell(const ProcessKey& process, const Space& space);
  void add_ranges(const proc::CodeRange& code, std::vector<bpf::UnwindRange>& ranges);
  static void add_file_ranges(const proc::CodeRange& code, const File& file, std::vector<bpf::UnwindRange>& ranges);
  void use_files(const ProcessKey& process, const Space& space);
  void put(File& file);
  void make_room();
  void say_full(std::string_view what);
  void leave(const ProcessKey& process, const Space& space);

  const proc::Symbolizer& symbolizer_;
  bpf::UnwindStore* store_ = nullptr;
  TableMaker maker_;
  std::map<FileKey, File> files_;
  std::map<ProcessKey, Space> spaces_;
  std::uint32_t flush_ = 2;  // tables that were used before the last but one may go
  bool said_full_ = false;
};

}  // namespace spanfold::app
