// SPDX-License-Identifier: Apache-2.0
// Logs of JIT compilers as files: they grow, are cut, written over, or never end.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "fixture.h"
#include "jit_fixture.h"
#include "proc/jit_log.h"

namespace spanfold::proc::test {
namespace {

constexpr std::uint64_t kStepNs = 100'000'000;

// A log and its file; each look is at a time of its own.
class Log {
 public:
  explicit Log(JitBudget& budget, JitLog::Form form = JitLog::Form::kPerfMap) {
    write("", O_CREAT | O_TRUNC);
    Fd fd(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    REQUIRE(::fstat(fd.get(), &status) == 0);
    log_ = std::make_unique<JitLog>(form, std::move(fd), status, 42, budget);
  }
  void append(std::string_view text) { write(text, O_APPEND); }
  void replace(std::string_view text) { write(text, O_TRUNC); }
  void truncate(std::int64_t bytes) { REQUIRE(::truncate(path().c_str(), bytes) == 0); }
  void look(std::uint64_t after_ns = kStepNs) { log_->read_new(now_ns_ += after_ns); }
  std::string name(std::uint64_t address) {
    const JitCode* code = log_->find(address);
    return code == nullptr ? "" : log_->name_of(*code);
  }
  JitLog& operator*() { return *log_; }
  JitLog* operator->() { return log_.get(); }
  [[nodiscard]] std::string path() const { return folder_ / "perf.map"; }

 private:
  void write(std::string_view text, int how) {
    const Fd fd(::open(path().c_str(), O_WRONLY | O_CLOEXEC | how, 0600));
    REQUIRE(::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }

  TemporaryFolder folder_;
  std::unique_ptr<JitLog> log_;
  std::uint64_t now_ns_ = 1;
};

}  // namespace

TEST_CASE("jit log: what is appended is taken, a line when it is complete") {
  JitBudget budget;
  Log log(budget);
  log.look();
  CHECK(log->find(0x1000) == nullptr);
  log.append("1000 10 first\n2000 10 sec");
  log.look(kStepNs / 2);
  CHECK(log->find(0x1000) == nullptr);  // not so soon
  const std::uint64_t changes = log->changes();
  log.look();
  CHECK(log->changes() > changes);
  CHECK(log.name(0x1000) == "first");
  CHECK(log->find(0x2000) == nullptr);
  log.append("ond\n1008 4 third\n");
  log.look();
  CHECK(log.name(0x2000) == "second");
  CHECK(log.name(0x1007) == "first");
  CHECK(log.name(0x1008) == "third");
  CHECK(log.name(0x100c) == "first");
  CHECK(log->edition() == 1);
  const std::uint64_t before = log->changes();
  log.look();
  CHECK(log->changes() == before);
}

TEST_CASE("jit log: a file that was cut or written over is read anew") {
  JitBudget budget;
  Log log(budget);
  log.append("1000 10 first\n2000 10 second\n");
  log.look();
  CHECK(log.name(0x2000) == "second");
  SUBCASE("shorter") {
    log.replace("1000 10 other\n");
    CHECK(log.name(0x2000).empty());  // the line is gone, its name with it
    log.look();
    CHECK(log.name(0x1000) == "other");
    CHECK(log->find(0x2000) == nullptr);
  }
  SUBCASE("longer") {
    log.replace("3000 10 a longer name\n1000 10 other\n2000 10 and one more\n");
    log.look();
    CHECK(log.name(0x1000) == "other");
    CHECK(log.name(0x2000) == "and one more");
    CHECK(log->edition() == 2);
  }
  SUBCASE("just as long") {
    ::usleep(20'000);  // the file's time has to move
    log.replace("2000 10 second\n1000 10 other\n");
    log.look();
    CHECK(log.name(0x1000) == "other");
    CHECK(log.name(0x2000) == "second");
  }
  SUBCASE("to nothing") {
    log.truncate(0);
    CHECK(log.name(0x1000).empty());
    log.look();
    CHECK(log->find(0x1000) == nullptr);
    log.append("1000 10 again\n");
    log.look();
    CHECK(log.name(0x1000) == "again");
  }
}

TEST_CASE("jit log: no name while part of the file is unread, it might say otherwise") {
  JitBudget budget;
  Log log(budget);
  std::string lines = "1000 10 first\n";
  for (int i = 0; i < 45; ++i) lines += "2000 10 " + std::string(1 << 10, 'x') + "\n";
  log.append(lines);
  log.truncate(40 << 20);  // and a hole, which is one long line
  log.append("\n1000 10 second\n");
  log.look();
  CHECK(log->find(0x1000) == nullptr);
  log.look(1'000 * kStepNs);
  CHECK(log.name(0x1000) == "second");
}

TEST_CASE("jit log: a gigabyte, or a file without an end, costs portions") {
  JitBudget budget;
  Log log(budget);
  log.append("1000 10 first\n");
  log.truncate(std::int64_t{1} << 40);
  for (int i = 0; i < 5; ++i) {
    log.look(1'000 * kStepNs);
    CHECK(log->find(0x1000) == nullptr);
  }
  CHECK(log->memory_bytes() < 1000);
}

TEST_CASE("jit log: beyond the budget the oldest are left out, and counted") {
  JitBudget budget;
  budget.ranges_left = 500;
  {
    Log log(budget);
    CHECK(budget.files_left == JitBudget{}.files_left - 1);
    std::string lines;
    for (int i = 1000; i < 2000; ++i) lines += std::to_string(i) + "0 10 number " + std::to_string(i) + "\n";
    log.append(lines);
    log.look();
    CHECK(log->find(0x10000) == nullptr);
    CHECK(log.name(0x19990) == "number 1999");
    CHECK(budget.ranges_left_out + (500 - budget.ranges_left) == 1000);
    CHECK(budget.ranges_left_out >= 500);
    log.append("19990 10 once more\n");
    log.look();
    CHECK(log.name(0x19990) == "once more");
  }
  CHECK(budget.ranges_left == 500);
  CHECK(budget.files_left == JitBudget{}.files_left);
}

TEST_CASE("jit log: one entry in very many pieces takes no more than the budget has") {
  JitBudget budget;
  budget.ranges_left = 150;
  Log log(budget);
  std::string lines = "1000 1000 large\n";
  for (int i = 10; i < 100; ++i) lines += "1" + std::to_string(i) + "0 1 small\n";
  log.append(lines);
  log.look();
  CHECK(budget.ranges_left <= 150);
  CHECK(log->memory_bytes() <= 150 * sizeof(JitCode) * 5 / 4);
  CHECK(log.name(0x1150) == "small");
}

TEST_CASE("jit log: a dump, and one that makes no sense") {
  JitBudget budget;
  Log log(budget, JitLog::Form::kJitDump);
  log.look();
  log.append(dump_header(42) + dump_load(0x1000, 0x100, "first"));
  log.look();
  CHECK(log.name(0x1080) == "first");
  log.append(std::string(16, '\0'));
  log.look();
  CHECK(log->find(0x1080) == nullptr);
  CHECK(budget.given_up == 1);
  log.append(dump_load(0x1000, 0x100, "second"));
  log.look();
  CHECK(log->find(0x1080) == nullptr);
}

TEST_CASE("jit log: a file without a name in its folder is read all the same, and says so") {
  JitBudget budget;
  Log log(budget);
  log.append("1000 10 first\n");
  log.look();
  CHECK(!log->has_no_link());
  log.append("1000 10 second\n");
  REQUIRE(::unlink(log.path().c_str()) == 0);
  log.look();
  CHECK(log->has_no_link());
  CHECK(log.name(0x1000) == "second");
}

}  // namespace spanfold::proc::test
