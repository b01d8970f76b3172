// SPDX-License-Identifier: Apache-2.0
// A process that lives for milliseconds: it enters a span of its own by system calls, burns CPU in one function, and
// ends or becomes another program. Two programs differ in nothing but that function, so that an address of the one
// means something in the other.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "context_map.h"
#include "workload.h"

namespace brief {

enum Kind : std::uint8_t { kBrief = 1, kDecoy = 2 };

inline std::string own_path() {
  char path[4096] = {};
  return readlink("/proc/self/exe", path, sizeof(path) - 1) > 0 ? path : "/proc/self/exe";
}

// The one program, for whoever is the other.
inline std::string other_path(const std::string& self) {
  const std::size_t slash = self.rfind('/') + 1;
  return self.substr(0, slash) + (self.substr(slash) == "brief" ? "decoy" : "brief");
}

[[noreturn]] inline void become(const std::vector<std::string>& command) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execv(words[0], words.data());
  std::perror(words[0]);
  _exit(127);
}

struct Leaf {
  std::string map;
  std::uint64_t serial = 0;
  double ms = 20;
  unsigned chain = 0;  // how many programs follow in this process

  explicit Leaf(const workload::Options& options)
      : map(options.text("--ctx-map")),
        serial(options.count("--serial", 0)),
        ms(options.number("--ms", 20)),
        chain(options.count("--chain", 0)) {}

  [[nodiscard]] std::vector<std::string> command(const std::string& path) const {
    return {path,
            "--mode",
            "leaf",
            "--serial",
            std::to_string(serial),
            "--ms",
            std::to_string(ms),
            "--chain",
            std::to_string(chain),
            "--ctx-map",
            map};
  }
  void run(Kind kind, void (*work)(std::uint64_t)) const {
    const workload::ContextMap context(map);
    const std::uint64_t key = workload::ContextMap::own_key();
    context.set(key, workload::make_ids(kind, 0, serial, 17, serial));
    work(static_cast<std::uint64_t>(ms * 1e6));
    context.clear(key);
    if (chain == 0) return;
    Leaf next = *this;
    ++next.serial;
    --next.chain;
    become(next.command(other_path(own_path())));
  }
};

}  // namespace brief
