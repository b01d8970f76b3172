// SPDX-License-Identifier: Apache-2.0
// One process: its executable mappings and attributes, as far as /proc confirms that it is the one that was sampled.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"
#include "proc/binary.h"
#include "proc/binary_cache.h"
#include "proc/code_range.h"
#include "proc/interner.h"
#include "proc/jit_symbols.h"
#include "proc/maps.h"
#include "proc/symbolizer.h"

namespace spanfold::proc {

// What processes share.
struct Shared {
  BinaryCache& binaries;
  Interner& interner;
  JitBudget& jit;
};

class Process {
 public:
  explicit Process(const ProcessKey& key) : key_(key) {}

  struct Region {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::uint64_t file_offset = 0;
    dev_t device = 0;
    std::uint64_t inode = 0;
    std::shared_ptr<Binary> binary;  // null: no file, or one that could not be opened
    const Mapping* plain = nullptr;  // stands in where there is no binary; its addresses are offsets
    bool generated = false;          // what is executed here comes out of no ELF file; no binary and no plain mapping:
                                     // out of no file at all
  };
  // Once its binary is known, if there is one: what is executed in `region`, and the signs of a JIT compiler.
  static void judge(const MapRange& range, Region& region, JitSymbols::Signs& signs, Interner& interner);

  // Makes the mappings those of `image`, reading /proc where that was not done yet, is too long ago, or failed for
  // another image. False where the process is gone or runs something else: then nothing is known of its addresses.
  bool prepare(const ImageTag& image, Shared& shared);
  // What the kernel told of `image` as it happened, up to `changed_ns`.
  struct Told {
    ImageTag image;
    std::uint64_t changed_ns = 0;  // boot time of its last mapping
    std::vector<Region> regions;   // by start
    JitSymbols::Signs signs;
    bool whole = true;    // all files were found
    std::string program;  // path of what it executed
  };
  [[nodiscard]] bool is_told(const ImageTag& image, std::uint64_t changed_ns) const {
    return known_ && image_ == image && told_ns_ == changed_ns;
  }
  // Makes the mappings what was told, and reads /proc for what that does not know, where the process still is there.
  void take(Told told, Shared& shared);
  // Call where an address lies in no mapping: reads them again, at most every 100 ms, and more and more rarely while
  // that does not help. True where they were read.
  bool look_again(const ImageTag& image, Shared& shared);

  // The executable mapping that holds `address`; null where there is none.
  [[nodiscard]] const Region* region_at(std::uint64_t address) const;

  // All of them, by start, for who unwinds; the number changes with them and is never 0 once they are known.
  [[nodiscard]] std::vector<CodeRange> code() const;
  [[nodiscard]] std::uint64_t code_version() const { return code_version_; }

  // The name of generated code, by what the process's JIT compilers say.
  [[nodiscard]] std::optional<JitName> jit_name(std::uint64_t address, Shared& shared);
  // Takes in what they said since, at most every 100 ms. Grows when names may be others; 0 where they never said a
  // word.
  [[nodiscard]] std::uint64_t names_version(Shared& shared);
  [[nodiscard]] const JitSymbols& jit() const { return jit_; }

  [[nodiscard]] const ProcessKey& key() const { return key_; }
  [[nodiscard]] const ProcessAttributes& attributes() const { return attributes_; }

  // What forget_gone() found and did not drop yet. A stack makes the process used again.
  struct Idle {
    bool used = true;        // since the last call
    bool seen_gone = false;  // at the last call
  };
  [[nodiscard]] const Idle& idle() const { return idle_; }
  void set_idle(bool seen_gone) { idle_ = {.used = false, .seen_gone = seen_gone}; }

 private:
  bool read(const ImageTag& image, Shared& shared);
  [[nodiscard]] ProcessAttributes attributes_of(const Told& told) const;
  Region region_of(const MapRange& range, int folder, Shared& shared) const;
  void look_for_jit_logs(JitBudget& budget);
  void set_regions(std::vector<Region> regions);
  [[nodiscard]] bool generates_without_frame_pointers() const;

  ProcessKey key_;
  ImageTag image_;         // what the mappings belong to
  ImageTag failed_image_;  // what was not there when it was looked for last
  bool known_ = false;     // regions_ and attributes_ were confirmed
  std::uint64_t told_ns_ = 0;
  std::uint64_t read_ns_ = 0;
  std::uint64_t read_cost_ns_ = 0;
  std::uint64_t look_again_after_ns_ = 0;
  Idle idle_;
  std::vector<Region> regions_;  // by start
  std::uint64_t code_version_ = 0;
  std::optional<bool> bare_jit_;  // what is generated keeps no frame pointers; none: not looked at yet
  ProcessAttributes attributes_;
  JitSymbols jit_;
};

}  // namespace spanfold::proc
