// SPDX-License-Identifier: Apache-2.0
// Addresses to names. Knows processes by identity, reads their mappings, files and symbol tables, and the kernel's.
// A wrong name is worse than none: what cannot be verified stays an address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/frame.h"
#include "base/process.h"
#include "base/task_sink.h"
#include "proc/code_range.h"

namespace spanfold::proc {

using spanfold::ImageTag;
using spanfold::ProcessKey;

// Resource attributes of a process, as strings: service.name, process.executable.name, process.executable.path,
// container.id; keys that are not known are absent. process.pid is not among them: it is in the key.
using ProcessAttributes = std::vector<std::pair<std::string, std::string>>;

struct Options {
  bool local_symbols = true;  // false: frames carry mapping and address only (--symbols none)
  bool lines = false;         // also lines of source, and inlined functions
};

// How much the symbolizer holds, for whoever keeps a budget. Names and mappings of frames stay until forget_all().
struct Usage {
  std::size_t processes = 0;
  std::size_t files = 0;         // open
  std::size_t names_bytes = 0;   // about: names and mappings that frames point at
  std::size_t tables_bytes = 0;  // about: symbol tables of files, of the kernel and of generated code
  // Frames of generated code so far, and how many of them no JIT compiler's log has a name for.
  std::uint64_t jit_frames = 0;
  std::uint64_t jit_frames_unnamed = 0;
};

class Symbolizer {
 public:
  explicit Symbolizer(Options options);
  ~Symbolizer();
  Symbolizer(const Symbolizer&) = delete;
  Symbolizer& operator=(const Symbolizer&) = delete;

  // Frames of one stack: `kernel` and `user` are instruction pointers, leaf first. Appends to `frames`, kernel frames
  // first. Return addresses are looked up, and reported, minus one; exact are the first kernel frame, kernel frames
  // that an interrupt stopped, and the first user frame unless the kernel half says that it made a system call (its
  // address is then behind that instruction).
  //
  // A process is read from /proc the first time it is seen, again when an address lies in no known mapping, and every
  // now and then; it is believed only while /proc/PID/stat shows `image` and the start time of `key`. Otherwise its
  // user frames stay without mapping and name, at their run-time address. A file that cannot be opened, or is not
  // certainly the mapped one, gives frames at file offsets with a mapping that has a filename and no id.
  //
  // Code that a process generated is named by what its JIT compiler writes to /tmp/perf-PID.map or to the jit-PID.dump
  // that it maps (jit_symbols.h), as of now: ask soon after the sample. With or without a name, its frames lie at
  // run-time addresses in a mapping "[anon jit]".
  void resolve(const ProcessKey& key, const ImageTag& image, std::span<const std::uint64_t> kernel,
               std::span<const std::uint64_t> user, std::vector<Frame>& frames);

  // What the kernel tells of processes as it happens goes here.
  [[nodiscard]] TaskSink& tasks();
  // Learns what a process had mapped when it ran code of its own at `seen_ns` of the kernel's boot clock (0: not
  // known), from what the kernel told, or from /proc where that was not done yet; opens its files, but names nothing.
  // Cheap, so that it can be done for every stack of a batch before the first is named: what lives for milliseconds,
  // and its files, are gone by the time that somebody else's symbol table has been read. The kernel must have told
  // everything up to then.
  void notice(const ProcessKey& key, const ImageTag& image, std::uint64_t seen_ns);
  // All that was told up to `told_ns` is here, and notice() was called for all stacks that were ready before that.
  void forget_told(std::uint64_t told_ns);
  // Names the generated code in `frames`, which resolve() gave for a stack of the process, as of now: an address may be
  // another function's since, or have no name yet. Costs nothing where the process's JIT compilers said nothing since
  // `version`, 0 at first, which is set. True where a frame changed.
  bool rename(const ProcessKey& key, std::uint64_t& version, std::span<Frame> frames);
  // The code of a process that was noticed, by address; the number is another one when that changed, 0 where nothing is
  // known of it (any more).
  [[nodiscard]] std::vector<CodeRange> code_of(const ProcessKey& key) const;
  [[nodiscard]] std::uint64_t code_version(const ProcessKey& key) const;
  // The files that process `pid` has mapped as code now; they stay open. Most other processes have some of them, too.
  [[nodiscard]] std::vector<std::shared_ptr<const ByteSource>> keep_files_of(std::uint32_t pid);
  // An address of the process lies in no code that is known: looks again, at most every 100 ms.
  void look_again(const ProcessKey& key, const ImageTag& image);

  // Where lines are wanted: asks for those of the frames, which resolve() gave, once find_lines() is called.
  void want_lines(std::span<const Frame> frames);
  // Gets what is wanted, for at most `milliseconds`, in a process of its own (line_worker.h), as long as `go_on`, which
  // is called every now and then, says so. What takes longer comes with a later call.
  void find_lines(int milliseconds, const std::function<bool()>& go_on);
  // Puts lines into frames that have none yet; costs nothing where no more are known than at `version`, 0 at first,
  // which is set. True where a frame changed.
  bool fill_lines(std::uint64_t& version, std::span<Frame> frames) const;
  // Reads the kernel's symbols now, and not at the first kernel frame.
  void prepare_kernel();

  // As read when the process was first resolved; empty where it could not be read. Valid until forget_gone().
  const ProcessAttributes& attributes(const ProcessKey& key);

  // Drops processes that were gone already at the call before and got no new stack since (the last stacks of a process
  // arrive after its end), and files that no other process holds. Frames made before stay valid.
  void forget_gone();
  // Drops everything: pointers in all frames made before are void.
  void forget_all();

  [[nodiscard]] Usage usage() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Attributes of the host: host.name, os.type.
[[nodiscard]] ProcessAttributes host_attributes();

}  // namespace spanfold::proc
