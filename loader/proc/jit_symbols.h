// SPDX-License-Identifier: Apache-2.0
// Names of the code that one process generates, out of the logs that its JIT compilers write: /tmp/perf-PID.map, and
// the jit-PID.dump that it maps.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/frame.h"
#include "proc/interner.h"
#include "proc/jit_log.h"
#include "proc/maps.h"

namespace spanfold::proc {

struct JitName {
  const std::string* function = nullptr;
  FrameType type = FrameType::kNative;
};

class JitSymbols {
 public:
  // What the mappings of the process say of its JIT compilers.
  struct Signs {
    bool generates = false;               // it may execute what is no ELF file
    FrameType type = FrameType::kNative;  // of what it generates, by the libraries that it maps
    std::optional<MapRange> dump;         // its mapping of a jit-PID.dump
  };
  void set_signs(Signs signs) { signs_ = std::move(signs); }
  [[nodiscard]] FrameType type() const { return signs_.type; }

  // Whether it is time to look whether there are logs: every second, every ten once there is one.
  [[nodiscard]] bool wants_look(std::uint64_t now_ns) const;
  struct Found {
    std::unique_ptr<JitLog> map;
    std::unique_ptr<JitLog> dump;
  };
  // Opens what is there, through an open folder /proc/PID: the map of the process as it calls itself, below its root,
  // and only if the file belongs to its user or to root.
  [[nodiscard]] Found look(int process_folder, std::uint64_t now_ns, JitBudget& budget);
  // Once it is sure that the folder was that of the process: takes them, unless they are held already.
  void adopt(Found found);

  // Takes in what the logs say since.
  void read_new(std::uint64_t now_ns);
  // The name of the code at `address`, as of what the logs say now. What a dump says counts more.
  [[nodiscard]] std::optional<JitName> find(std::uint64_t address, std::uint64_t now_ns, Interner& interner);

  // Whether some log is there to be asked.
  [[nodiscard]] bool has_logs() const { return held_[0].log || held_[1].log; }
  // Grows when a name that was asked for may be another one now.
  [[nodiscard]] std::uint64_t changes() const;
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  struct Held {
    std::unique_ptr<JitLog> log;
    std::uint32_t edition = 0;
    std::unordered_map<std::uint32_t, JitName> names;  // by place in the log
  };
  std::optional<JitName> find_in(Held& held, std::uint64_t address, Interner& interner) const;

  Signs signs_;
  std::array<Held, 2> held_;  // the dump, the map
  std::uint64_t looked_ns_ = 0;
  std::uint64_t before_ = 0;  // changes up to the adoption of the logs that are held
};

}  // namespace spanfold::proc
