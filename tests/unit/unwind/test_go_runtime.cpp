// SPDX-License-Identifier: Apache-2.0
// Rules of the functions in which Go's runtime leaves one stack for another, and of what a signal does to a stack.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>

#include "base/file.h"
#include "proc/byte_source.h"
#include "unit/proc/fixture.h"
#include "unwind/go.h"

namespace spanfold::unwind {
namespace {

using proc::test::have_program;
using proc::test::TemporaryFolder;

struct Function {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// A program, what `go tool nm` says of it, and its rules.
class Program {
 public:
  Program() {
    proc::test::write_text(folder_ / "a.go", "package main\nfunc main() { println(1) }\n");
    proc::test::output_of("cd " + folder_.path().string() +
                          " && GOTOOLCHAIN=local CGO_ENABLED=0 go build -o a a.go 2>&1");
    for (const std::string& line : proc::test::lines_of("go tool nm -size " + (folder_ / "a"))) {
      std::istringstream words(line);
      std::string begin, bytes, type, name;
      words >> begin >> bytes >> type >> name;
      const std::uint64_t at = std::strtoull(begin.c_str(), nullptr, 16);
      // Functions of assembler have the name of their calling convention.
      functions_[name.substr(0, name.find(".abi"))] = {at, at + std::strtoull(bytes.c_str(), nullptr, 10)};
    }
    const auto table = read_go_table(proc::MemorySource(*read_file(folder_ / "a", 1UL << 30)));
    if (table) table_ = *table;
  }

  [[nodiscard]] Function function(const std::string& name) const {
    INFO(name);
    const auto found = functions_.find(name);
    REQUIRE(found != functions_.end());
    return found->second;
  }
  [[nodiscard]] const Rule& rule_at(std::uint64_t address) const {
    const auto next = std::upper_bound(table_.rows.begin(), table_.rows.end(), address - table_.base,
                                       [](std::uint64_t value, const Row& row) { return value < row.start; });
    REQUIRE(next != table_.rows.begin());
    return table_.rules[(next - 1)->rule];
  }

 private:
  TemporaryFolder folder_;
  std::map<std::string, Function> functions_;
  Table table_;
};

constexpr Rule kEntered{.cfa = Cfa::kStackPointer, .offset = 8, .ra_offset = -8};
constexpr Rule kPushed{.cfa = Cfa::kStackPointer,
                       .frame_pointer = SavedFramePointer::kAtCfa,
                       .offset = 16,
                       .fp_offset = -16,
                       .ra_offset = -8};
constexpr Rule kBack{.cfa = Cfa::kFramePointer,
                     .frame_pointer = SavedFramePointer::kAtCfa,
                     .reg = Rule::kSwitches,
                     .offset = 16,
                     .fp_offset = -16,
                     .ra_offset = -8};

}  // namespace

TEST_CASE("go: functions that switch stacks are left by the stack pointer until they do") {
  if (!have_program("go")) return;
  const Program program;
  for (const char* name : {"runtime.mcall", "runtime.systemstack"}) {
    CAPTURE(name);
    const Function function = program.function(name);
    CHECK(program.rule_at(function.begin) == kEntered);     // push %rbp
    CHECK(program.rule_at(function.begin + 1) == kPushed);  // mov %rsp,%rbp
    CHECK(program.rule_at(function.begin + 3) == kPushed);
    CHECK(program.rule_at(function.begin + 32) == kBack);
  }
  // It has no frame; once it has gone to the other stack there is no way back.
  const Function grows = program.function("runtime.morestack");
  for (const std::uint64_t at : {grows.begin, grows.begin + 40, grows.end - 1}) {
    CHECK(program.rule_at(at) == Rule{.cfa = Cfa::kStackPointer, .reg = Rule::kSwitches, .offset = 8, .ra_offset = -8});
  }
}

TEST_CASE("go: the stack under a signal's handler goes on with whoever was interrupted") {
  if (!have_program("go")) return;
  const Program program;
  const Function back = program.function("runtime.sigreturn__sigaction");
  const Rule registers{.cfa = Cfa::kSignal, .offset = 160, .slot = 120, .ra_offset = 168};
  CHECK(program.rule_at(back.begin - 1) == registers);  // where a walk looks for what it returns to
  CHECK(program.rule_at(back.begin) == registers);
  CHECK(program.rule_at(back.begin + 9) == registers);
  CHECK(program.rule_at(back.begin - 2).cfa != Cfa::kSignal);
  CHECK(program.rule_at(back.end + 32).cfa != Cfa::kSignal);
  CHECK(program.rule_at(program.function("runtime.sigtramp").begin) == kEntered);
  CHECK(program.rule_at(program.function("runtime.mstart").begin).cfa == Cfa::kBottom);
  CHECK(program.rule_at(program.function("runtime.goexit").begin).cfa == Cfa::kBottom);
  for (const char* name : {"runtime.asyncPreempt", "runtime.sigpanic"}) {
    const Rule& rule = program.rule_at(program.function(name).begin);
    CHECK(rule.cfa == Cfa::kStackPointer);
    CHECK(rule.reg == Rule::kInterrupted);
  }
}

}  // namespace spanfold::unwind
