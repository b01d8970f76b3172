// SPDX-License-Identifier: Apache-2.0
// A walk over a copy of a stack by libdw, which shares no code with ours: not its readers, not its rules.
#pragma once

#include <elfutils/libdwfl.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/truth.h"

namespace spanfold::bench {

class LibdwWalk {
 public:
  struct Stack {
    std::vector<std::uint64_t> frames;
    std::string end;
  };

  explicit LibdwWalk(pid_t pid) : pid_(pid) {}
  LibdwWalk(const LibdwWalk&) = delete;
  LibdwWalk& operator=(const LibdwWalk&) = delete;
  ~LibdwWalk() { close(); }

  // Valid until the next call.
  const Stack& walk(const truth_sample& sample) {
    sample_ = &sample;
    stack_.frames.clear();
    stack_.end.clear();
    is_outside_ = false;
    if (!follow_mappings()) {
      stack_.end = "no modules";
      return stack_;
    }
    const int failed = dwfl_getthreads(dwfl_, take_thread, this);
    if (stack_.end.empty() && failed != 0) stack_.end = dwfl_errmsg(-1);
    return stack_;
  }

  // Does the file say how this frame is left?
  bool is_described(std::uint64_t pc, bool is_innermost) { return facts_of(pc, is_innermost).is_described; }
  const std::string& name_of(std::uint64_t pc, bool is_innermost) { return facts_of(pc, is_innermost).name; }

 private:
  struct Facts {
    std::string name;
    bool is_described = false;
  };

  static constexpr Dwfl_Callbacks kFiles{.find_elf = dwfl_linux_proc_find_elf,
                                         .find_debuginfo = dwfl_standard_find_debuginfo,
                                         .section_address = nullptr,
                                         .debuginfo_path = nullptr};

  const Facts& facts_of(std::uint64_t pc, bool is_innermost) {
    const std::uint64_t at = is_innermost ? pc : pc - 1;
    const auto [place, added] = facts_.try_emplace(at);
    Facts& facts = place->second;
    if (!added) return facts;
    Dwfl_Module* module = dwfl_ == nullptr ? nullptr : dwfl_addrmodule(dwfl_, at);
    if (module == nullptr) {
      facts.name = "code of no file";
      return facts;
    }
    const char* file = dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
    const char* symbol = dwfl_module_addrname(module, at);
    const std::string path = file != nullptr ? file : "?";
    facts.name = fmt::format("{} ({})", symbol != nullptr ? symbol : "?", path.substr(path.rfind('/') + 1));
    const auto holds = [&](Dwarf_CFI* cfi, Dwarf_Addr bias) {
      Dwarf_Frame* frame = nullptr;
      const bool found = cfi != nullptr && dwarf_cfi_addrframe(cfi, at - bias, &frame) == 0;
      std::free(frame);  // NOLINT(cppcoreguidelines-no-malloc): libdw gives it so
      return found;
    };
    Dwarf_Addr bias = 0;
    facts.is_described = holds(dwfl_module_eh_cfi(module, &bias), bias);
    if (!facts.is_described) facts.is_described = holds(dwfl_module_dwarf_cfi(module, &bias), bias);
    return facts;
  }

  void close() {
    if (dwfl_ != nullptr) dwfl_end(dwfl_);
    dwfl_ = nullptr;
    facts_.clear();
  }

  // Files of code that the process has mapped now.
  [[nodiscard]] std::string mapped() const {
    std::ifstream maps(fmt::format("/proc/{}/maps", pid_));
    std::string all;
    for (std::string line; std::getline(maps, line);) {
      if (line.find(" r-xp ") != std::string::npos && line.find('/') != std::string::npos) all += line + '\n';
    }
    return all;
  }

  // What JIT compilers map has no files.
  bool follow_mappings() {
    constexpr int kSamplesBetween = 500;
    if (dwfl_ != nullptr && ++samples_ % kSamplesBetween != 0) return true;
    std::string now = mapped();
    if (now.empty() || now == mapped_) return dwfl_ != nullptr;
    mapped_ = std::move(now);
    close();
    dwfl_ = dwfl_begin(&kFiles);
    if (dwfl_ == nullptr || dwfl_linux_proc_report(dwfl_, pid_) != 0 || dwfl_report_end(dwfl_, nullptr, nullptr) != 0)
      return false;
    static constexpr Dwfl_Thread_Callbacks kThread{.next_thread = next_thread,
                                                   .get_thread = nullptr,
                                                   .memory_read = read_memory,
                                                   .set_initial_registers = set_registers,
                                                   .detach = nullptr,
                                                   .thread_detach = nullptr};
    return dwfl_attach_state(dwfl_, nullptr, pid_, &kThread, this);
  }

  static pid_t next_thread(Dwfl* /*dwfl*/, void* self, void** argument) {
    if (*argument != nullptr) return 0;
    *argument = self;
    return static_cast<LibdwWalk*>(self)->pid_;
  }

  static bool read_memory(Dwfl* /*dwfl*/, Dwarf_Addr address, Dwarf_Word* value, void* argument) {
    auto& self = *static_cast<LibdwWalk*>(argument);
    const std::uint64_t at = address - self.sample_->stack_at;
    if (at + sizeof *value > self.sample_->stack_bytes || at > self.sample_->stack_bytes) {
      self.is_outside_ = true;
      return false;
    }
    std::memcpy(value, self.sample_->stack + at, sizeof *value);
    return true;
  }

  static bool set_registers(Dwfl_Thread* thread, void* argument) {
    const truth_sample& sample = *static_cast<LibdwWalk*>(argument)->sample_;
    std::vector<Dwarf_Word> registers(std::begin(sample.registers), std::end(sample.registers));
    registers.push_back(sample.pc);  // x86-64: the return address is number 16
    return dwfl_thread_state_registers(thread, 0, static_cast<unsigned>(registers.size()), registers.data());
  }

  static int take_thread(Dwfl_Thread* thread, void* argument) {
    auto& self = *static_cast<LibdwWalk*>(argument);
    const int failed = dwfl_thread_getframes(thread, take_frame, argument);
    self.stack_.end = failed != 0 ? dwfl_errmsg(-1) : "bottom";
    if (self.is_outside_) self.stack_.end = "outside the copy";
    if (self.stack_.frames.size() >= SF_USER_FRAMES) self.stack_.end = "depth";
    return DWARF_CB_ABORT;
  }

  static int take_frame(Dwfl_Frame* frame, void* argument) {
    auto& frames = static_cast<LibdwWalk*>(argument)->stack_.frames;
    Dwarf_Addr pc = 0;
    if (!dwfl_frame_pc(frame, &pc, nullptr)) return DWARF_CB_ABORT;
    frames.push_back(pc);
    return frames.size() < SF_USER_FRAMES ? DWARF_CB_OK : DWARF_CB_ABORT;
  }

  pid_t pid_;
  Dwfl* dwfl_ = nullptr;
  std::string mapped_;
  int samples_ = 0;
  const truth_sample* sample_ = nullptr;
  Stack stack_;
  bool is_outside_ = false;
  std::unordered_map<std::uint64_t, Facts> facts_;
};

}  // namespace spanfold::bench
