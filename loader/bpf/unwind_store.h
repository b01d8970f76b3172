// SPDX-License-Identifier: Apache-2.0
// Tables of unwinding and mappings of processes where the programs find them: in memory that both share, within a
// budget that is fixed when the programs are loaded.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/process.h"
#include "base/result.h"
#include "base/unwind.h"
#include "bpf/extents.h"
#include "bpf/shared_array.h"

struct sf_chunk;
struct sf_range;
struct sf_rule;
struct sf_section;

namespace spanfold::bpf {

// A part of a file's table.
struct UnwindSection {
  std::uint32_t number = 0;
  std::uint32_t serial = 0;
  std::uint64_t begin = 0;  // ELF virtual addresses of the text that it covers
  std::uint64_t end = 0;
};

// How code of a process is unwound.
struct UnwindRange {
  enum class Kind : std::uint8_t { kNoTable, kTable, kFramePointer, kNoRule, kUprobes };
  std::uint64_t start = 0;  // run-time address
  std::uint64_t bytes = 0;
  Kind kind = Kind::kNoTable;
  std::uint32_t section = 0;  // of a table
  std::uint32_t serial = 0;
  std::uint32_t text = 0;  // bytes between the section's begin and `start`
};

class UnwindStore {
 public:
  struct Maps {
    int spaces = -1;
    int ranges = -1;
    int sections = -1;
    int chunks = -1;
    int rules = -1;
    std::uint32_t range_count = 0;
    std::uint32_t chunk_count = 0;
  };
  [[nodiscard]] static Result<UnwindStore> open(const Maps& maps);
  UnwindStore(UnwindStore&& other) noexcept;
  UnwindStore& operator=(UnwindStore&& other) noexcept;
  UnwindStore(const UnwindStore&) = delete;
  UnwindStore& operator=(const UnwindStore&) = delete;
  ~UnwindStore();

  // Where programs see that spaces have changed: a word of theirs that lives as long as they do.
  void use_version(std::uint32_t* version) { version_ = version; }

  // Puts a table where programs can use it, in parts by address. None: there is no room. Rules beyond what all files
  // together may have count as unsupported.
  [[nodiscard]] std::optional<std::vector<UnwindSection>> add(const UnwindTable& table);
  // From here on ranges that name one of these find no table.
  void remove(std::span<const UnwindSection> sections);

  // What a process has mapped, sorted and disjoint; in place of what was told of it before. False: there is no room.
  [[nodiscard]] bool set_space(const ProcessKey& process, std::span<const UnwindRange> ranges);
  void remove_space(const ProcessKey& process);

  // Around a wait for all programs that run: what was removed before it can be used anew after it.
  void before_grace();
  void after_grace();

  [[nodiscard]] std::size_t free_bytes() const;
  [[nodiscard]] std::size_t rules() const { return rule_ids_.size(); }
  [[nodiscard]] std::uint64_t rules_left_out() const { return rules_left_out_; }

 private:
  struct Space {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  struct Place {
    std::uint32_t chunk = 0;
    std::uint32_t word = 0;
    std::uint32_t words = 0;
  };

  UnwindStore();
  void step_version();
  std::uint32_t rule_id(UnwindRule rule);
  std::optional<UnwindSection> add_part(const UnwindTable& table, std::span<const std::uint32_t> ids, std::size_t first,
                                        std::uint64_t begin, std::uint64_t end);
  std::optional<Place> take_words(std::uint32_t words);

  Fd spaces_fd_;
  SharedArray<sf_range> ranges_;
  SharedArray<sf_section> sections_;
  SharedArray<sf_chunk> chunks_;
  SharedArray<sf_rule> rules_;
  std::vector<Extents> free_words_;  // by chunk
  Extents free_ranges_{0};
  Extents free_sections_{0};
  std::map<UnwindRule, std::uint32_t> rule_ids_;
  std::map<std::uint32_t, Place> places_;  // by section
  std::map<ProcessKey, Space> spaces_;
  std::uint32_t* version_ = nullptr;
  std::uint32_t serial_ = 0;
  std::uint32_t generation_ = 0;
  std::uint64_t rules_left_out_ = 0;
};

}  // namespace spanfold::bpf
