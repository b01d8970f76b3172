// SPDX-License-Identifier: Apache-2.0
#include "proc/line_finder.h"

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "proc/demangle.h"

namespace spanfold::proc {

void LineFinder::want(std::span<const Frame> frames) {
  for (const Frame& frame : frames) {
    const auto file = frame.mapping == nullptr ? files_.end() : files_.find(frame.mapping);
    if (file == files_.end() || !file->second) continue;
    if (known_.size() >= kMostKnown || bytes_ >= kMostBytes) {
      if (!said_full_)
        log::warning("lines of {} addresses are known, that is the most: others get none", known_.size());
      said_full_ = true;
      return;
    }
    const auto [place, is_new] = known_.try_emplace({frame.mapping, frame.address});
    if (!is_new) continue;
    place->second.symbol = frame.function;
    wanted_[frame.mapping].push_back(frame.address);
  }
}

bool LineFinder::ask_next() {
  while (!wanted_.empty()) {
    const auto next = wanted_.begin();
    const Mapping* mapping = next->first;
    std::vector<std::uint64_t>& addresses = next->second;
    const auto file = files_.find(mapping);
    // What is read of a file that was written over in place would be of something else.
    if (file == files_.end() || !file->second || !file->second->unchanged()) {
      wanted_.erase(next);
      continue;
    }
    const std::size_t count = std::min(addresses.size(), kMostLineAddresses);
    asked_ = {.mapping = mapping,
              .addresses = {addresses.end() - static_cast<std::ptrdiff_t>(count), addresses.end()},
              .file = file->second};
    addresses.resize(addresses.size() - count);
    if (addresses.empty()) wanted_.erase(next);
    if (worker_.ask(asked_.file->descriptor(), asked_.addresses)) return true;
    give_up(asked_.file.get());
  }
  return false;
}

// Symbols say more of the function that was compiled than DWARF does: which namespace a local one is in, which clone it
// is. What has no name is left out.
std::vector<SourceLine> LineFinder::named(const RawLines& lines, const std::string* symbol) {
  std::vector<SourceLine> named;
  for (const RawLine& raw : lines) {
    const bool outermost = &raw == &lines.back();
    const std::string* function = outermost && symbol != nullptr ? symbol
                                  : raw.function.empty()         ? nullptr
                                                                 : interner_.name(demangle(raw.function));
    if (function == nullptr) continue;
    named.push_back({function, raw.file.empty() ? nullptr : interner_.name(raw.file), raw.line});
  }
  named.shrink_to_fit();
  return named;
}

void LineFinder::take(const std::vector<RawLines>& answer) {
  ++answers_;
  if (!asked_.file->unchanged() || bytes_ >= kMostBytes) return;
  const std::size_t names_before = interner_.memory_bytes();
  for (std::size_t i = 0; i < answer.size(); ++i) {
    const auto place = known_.find({asked_.mapping, asked_.addresses[i]});
    if (place == known_.end()) continue;
    place->second.lines = named(answer[i], place->second.symbol);
    bytes_ += place->second.lines.size() * sizeof(SourceLine);
  }
  bytes_ += interner_.memory_bytes() - names_before;
}

void LineFinder::give_up(const ByteSource* file) {
  for (auto& [mapping, source] : files_) {
    if (source.get() != file) continue;
    log::warning("{} gets no lines: its debug information cannot be read within bounds", mapping->filename);
    source.reset();
  }
}

void LineFinder::find(int milliseconds, const std::function<bool()>& go_on) {
  constexpr int kPieceMilliseconds = 10;
  constexpr std::uint64_t kMillisecondNs = 1'000'000;
  const std::uint64_t end_ns = boot_clock_ns() + static_cast<std::uint64_t>(milliseconds) * kMillisecondNs;
  std::vector<RawLines> answer;
  while (worker_.is_asked() || ask_next()) {
    const LineWorker::State state = worker_.wait(kPieceMilliseconds, answer);
    if (state == LineWorker::State::kAnswered) take(answer);
    const bool again =
        state == LineWorker::State::kAskAgain && worker_.ask(asked_.file->descriptor(), asked_.addresses);
    if (state == LineWorker::State::kFailed || (state == LineWorker::State::kAskAgain && !again)) {
      give_up(asked_.file.get());
    }
    if (boot_clock_ns() >= end_ns || !go_on()) return;
  }
}

bool LineFinder::fill(std::span<Frame> frames) const {
  bool changed = false;
  for (Frame& frame : frames) {
    if (frame.lines != nullptr || frame.mapping == nullptr) continue;
    const auto place = known_.find({frame.mapping, frame.address});
    if (place == known_.end() || place->second.lines.empty()) continue;
    frame.lines = &place->second.lines;
    changed = true;
  }
  return changed;
}

void LineFinder::drop_unused() {
  for (auto& [mapping, file] : files_) {
    const bool needed = file.use_count() > 1 || wanted_.find(mapping) != wanted_.end();
    if (!needed) file.reset();
  }
}

void LineFinder::clear() {
  files_.clear();
  known_.clear();
  wanted_.clear();
  bytes_ = 0;
}

}  // namespace spanfold::proc
