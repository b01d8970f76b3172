// SPDX-License-Identifier: Apache-2.0
#include "proc/kernel.h"

#include <fcntl.h>

#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/log.h"
#include "proc/build_id.h"
#include "proc/demangle.h"
#include "proc/procfs.h"

namespace spanfold::proc {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::uint64_t kCompareNs = kSecondNs;         // a hundred microseconds each
constexpr std::uint64_t kBelieveNs = 60 * kSecondNs;    // reading takes 60 ms: a thousandth of a CPU
constexpr std::uint64_t kReadTimesCost = 100;           // where something changed; a hundredth at the worst
constexpr std::size_t kMaxKallsymsBytes = 256UL << 20;  // 5 to 20 MB on real hosts
constexpr std::size_t kMaxNotesBytes = 64UL * 1024;
constexpr std::string_view kKernel = "[kernel]";
constexpr std::string_view kPrograms = "[bpf]";

// "[name]" → its build id, in hex.
std::string build_id_of(std::string_view module) {
  std::string path = "/sys/kernel/notes";
  if (module != kKernel) {
    const std::string_view name = module.substr(1, module.size() - 2);
    if (name.find('/') != std::string_view::npos) return {};
    path = "/sys/module/" + std::string(name) + "/notes/.note.gnu.build-id";
  }
  BuildIds ids;
  const auto notes = read_file(path, kMaxNotesBytes);
  if (notes) collect_notes(*notes, 4, ids);
  return ids.gnu;
}

template <std::size_t Size>
bool starts_with_one(std::string_view text, const std::array<std::string_view, Size>& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(), [&](auto beginning) { return text.starts_with(beginning); });
}

}  // namespace

bool Kernel::is_interrupt_entry(std::string_view symbol) {
  constexpr std::array<std::string_view, 7> kEntries = {
      "asm_sysvec_", "asm_exc_", "asm_common_interrupt", "asm_spurious_", "asm_xen_", "el1h_64_", "el1t_64_"};
  return starts_with_one(symbol, kEntries);
}

bool Kernel::is_syscall_entry(std::string_view symbol) {
  // The child of a fork begins in ret_from_fork, and leaves through the system call that its parent made.
  constexpr std::array<std::string_view, 9> kEntries = {
      "entry_SYSCALL_", "entry_SYSENTER_", "entry_INT80_", "do_syscall_64", "do_fast_syscall_32",
      "do_int80_",      "asm_int80_",      "el0_svc",      "ret_from_fork"};
  return starts_with_one(symbol, kEntries);
}

void Kernel::read(std::uint64_t now_ns) {
  functions_.clear();
  mappings_.clear();
  const std::uint64_t begin_ns = boot_clock_ns();
  code_ = KernelCode::now();  // first: what changes while the table is read is seen at the next comparison
  changed_ = lost_program_ = false;
  Kallsyms& symbols = symbols_.emplace();
  const bool good = read_pieces_at(AT_FDCWD, "/proc/kallsyms", kMaxKallsymsBytes,
                                   [&](std::string_view piece) { symbols.feed(piece); });
  symbols.finish();
  read_ns_ = compared_ns_ = now_ns;
  read_cost_ns_ = boot_clock_ns() - begin_ns;
  const bool useless = !good || symbols.hidden() || symbols.size() == 0;
  if (useless && !said_hidden_) {
    log::warning("kernel functions have no names: /proc/kallsyms {}",
                 good ? "shows no addresses (kernel.kptr_restrict, or CAP_SYSLOG is missing)" : "cannot be read");
    said_hidden_ = true;
  }
}

void Kernel::read_again_if_needed(const Kallsyms::Found& found, std::uint64_t now_ns) {
  if (symbols_->size() == 0) return;
  if (now_ns - compared_ns_ >= kCompareNs) {
    compared_ns_ = now_ns;
    const KernelCode code = KernelCode::now();
    changed_ = changed_ || code != code_;
    lost_program_ = lost_program_ || code.lost_program_of(code_);
  }
  // Trampolines come and go with neither a module nor a program.
  const bool unseen = found.module == nullptr || (found.module->name == kPrograms && !code_.knows_programs);
  const std::uint64_t age_ns = now_ns - read_ns_;
  if ((changed_ && age_ns >= kReadTimesCost * read_cost_ns_) || (unseen && age_ns >= kBelieveNs)) read(now_ns);
}

const Mapping* Kernel::mapping_of(const std::string& module) {
  const auto [place, added] = mappings_.try_emplace(module, nullptr);
  if (!added) return place->second;
  std::uint64_t end = 0;
  for (const Kallsyms::Module& range : symbols_->modules()) {
    if (range.name == module) end = std::max(end, range.end - range.base);
  }
  const std::string id = build_id_of(module);
  place->second = interner_.mapping({.memory_start = 0,
                                     .memory_limit = end,
                                     .file_offset = 0,
                                     .filename = module,
                                     .build_id_gnu = id,
                                     .htlhash = htlhash_of_build_id(id)});
  return place->second;
}

Kernel::Located Kernel::frame_at(std::uint64_t address, std::uint64_t now_ns) {
  if (!symbols_) read(now_ns);
  Kallsyms::Found found = symbols_->find(address);
  if (found.module == nullptr || found.module->name != kKernel) {
    read_again_if_needed(found, now_ns);
    found = symbols_->find(address);
  }
  Located located{.frame = {.address = address, .type = FrameType::kKernel}, .symbol = found.name};
  if (found.module == nullptr) return located;
  located.frame.mapping = mapping_of(found.module->name);
  located.frame.address = found.module_offset;
  const bool doubtful = lost_program_ && found.module->name == kPrograms;
  if (!names_ || found.name.empty() || doubtful) return located;
  const auto [place, added] = functions_.try_emplace(found.name.data(), nullptr);
  if (added) place->second = interner_.name(demangle(found.name));
  located.frame.function = place->second;
  return located;
}

void Kernel::clear() {
  symbols_.reset();
  functions_.clear();
  mappings_.clear();
}

}  // namespace spanfold::proc
