// SPDX-License-Identifier: Apache-2.0
// Addresses to names. Knows processes by identity, reads their mappings, files and symbol tables, and the kernel's.
// A wrong name is worse than none: what cannot be verified stays an address.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/frame.h"
#include "base/process.h"

namespace spanfold::proc {

using spanfold::ImageTag;
using spanfold::ProcessKey;

// Resource attributes of a process, as strings: service.name, process.executable.name, process.executable.path,
// container.id; keys that are not known are absent. process.pid is not among them: it is in the key.
using ProcessAttributes = std::vector<std::pair<std::string, std::string>>;

struct Options {
  bool local_symbols = true;  // false: frames carry mapping and address only (--symbols none)
};

class Symbolizer {
 public:
  explicit Symbolizer(Options options);
  ~Symbolizer();
  Symbolizer(const Symbolizer&) = delete;
  Symbolizer& operator=(const Symbolizer&) = delete;

  // Frames of one stack: `kernel` and `user` are instruction pointers, leaf first, the first of each half exact, the
  // others return addresses. Appends to `frames`, kernel frames first. A process is read from /proc the first time it is seen (and
  // again when an address lies in no known mapping); it is believed only while /proc/PID/stat shows `image` and the
  // start time of `key`, otherwise its user frames stay without mapping and name.
  void resolve(const ProcessKey& key, const ImageTag& image, std::span<const std::uint64_t> kernel,
               std::span<const std::uint64_t> user, std::vector<Frame>& frames);

  // As read when the process was first resolved; empty where it could not be read.
  const ProcessAttributes& attributes(const ProcessKey& key);

  // Drops processes that are gone, and their files where no other process holds them. Frames made before stay valid.
  void forget_gone();
  // Drops everything: pointers in all frames made before are void.
  void forget_all();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Attributes of the host: host.name, os.type.
[[nodiscard]] ProcessAttributes host_attributes();

}  // namespace spanfold::proc
