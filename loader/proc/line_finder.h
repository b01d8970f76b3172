// SPDX-License-Identifier: Apache-2.0
// Keeps what is known of places in source code, and asks for what is not, file by file.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/frame.h"
#include "proc/byte_source.h"
#include "proc/interner.h"
#include "proc/line_worker.h"

namespace spanfold::proc {

class LineFinder {
 public:
  explicit LineFinder(Interner& interner) : interner_(interner) {}

  // Numbers files, from 1.
  [[nodiscard]] std::uint64_t next_number() { return ++files_numbered_; }
  // Debug information of addresses in `mapping`, which no other file shares, is in `file`; null: there is none.
  void add_file(const Mapping* mapping, std::shared_ptr<const ByteSource> file) { files_[mapping] = std::move(file); }
  [[nodiscard]] bool knows(const Mapping* mapping) const { return files_.find(mapping) != files_.end(); }

  // Notes what is to be asked about these frames.
  void want(std::span<const Frame> frames);
  // Asks, for at most `milliseconds`, and as long as `go_on`, which is called every now and then, says so. What is not
  // answered by then is taken at a later call.
  void find(int milliseconds, const std::function<bool()>& go_on);
  // Puts into the frames what is known by now. True where one changed.
  bool fill(std::span<Frame> frames) const;
  // Grows with every answer.
  [[nodiscard]] std::uint64_t answers() const { return answers_; }

  // Files that nobody else holds any more are not asked about.
  void drop_unused();
  void clear();

 private:
  // About 100 bytes each with their lines.
  static constexpr std::size_t kMostKnown = std::size_t{1} << 17;
  // Of lines and their names. A file may say half a megabyte of one address, and other things of each.
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  struct Place {
    const Mapping* mapping = nullptr;
    std::uint64_t address = 0;
    bool operator==(const Place&) const = default;
  };
  struct PlaceHash {
    std::size_t operator()(const Place& place) const {
      constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
      return (reinterpret_cast<std::uintptr_t>(place.mapping) ^ place.address * kOdd) * kOdd;
    }
  };
  struct Known {
    const std::string* symbol = nullptr;  // of the function that was compiled there
    std::vector<SourceLine> lines;        // none: asked, or to be asked
  };
  struct Question {
    const Mapping* mapping = nullptr;
    std::vector<std::uint64_t> addresses;
    std::shared_ptr<const ByteSource> file;
  };

  bool ask_next();
  void take(const std::vector<RawLines>& answer);
  std::vector<SourceLine> named(const RawLines& lines, const std::string* symbol);
  void give_up(const ByteSource* file);

  Interner& interner_;
  LineWorker worker_;
  std::unordered_map<const Mapping*, std::shared_ptr<const ByteSource>> files_;  // null: not to be asked
  std::unordered_map<Place, Known, PlaceHash> known_;
  std::unordered_map<const Mapping*, std::vector<std::uint64_t>> wanted_;
  Question asked_;
  std::uint64_t answers_ = 0;
  std::uint64_t files_numbered_ = 0;
  std::size_t bytes_ = 0;
  bool said_full_ = false;
};

}  // namespace spanfold::proc
