// SPDX-License-Identifier: Apache-2.0
// Real processes through the whole symbolizer: who is believed, which file is read, which address is looked up.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "fixture.h"
#include "proc/symbolizer.h"

namespace spanfold::proc::test {
namespace {

std::string name_of(const Frame& frame) { return frame.function == nullptr ? "" : *frame.function; }

Frame resolve_one(Symbolizer& symbolizer, const Seen& seen, std::uint64_t address) {
  std::vector<Frame> frames;
  symbolizer.resolve(seen.key, seen.image, {}, std::span(&address, 1), frames);
  REQUIRE(frames.size() == 1);
  return frames[0];
}

std::uint64_t hex(const std::string& text) { return std::stoull(text, nullptr, 16); }

// A program that says where two of its functions lie, and waits.
constexpr const char* kProgram = R"(
#include <cstdio>
#include <string>
#include <unistd.h>
__attribute__((noinline)) int FIRST(std::string const& text) { asm volatile(""); return static_cast<int>(text.size()); }
__attribute__((noinline)) int SECOND(int value) { asm volatile(""); return value + 1; }
int main() {
  std::printf("%lx %lx\n", reinterpret_cast<unsigned long>(&FIRST), reinterpret_cast<unsigned long>(&SECOND));
  std::fflush(stdout);
  for (;;) pause();
}
)";

std::string build(const TemporaryFolder& folder, const std::string& name, const std::string& flags) {
  write_text(folder / "program.cpp", kProgram);
  std::string binary = folder / name;
  output_of("g++ -O1 -w " + flags + " -o " + binary + " " + (folder / "program.cpp") + " 2>&1");
  return binary;
}

struct Addresses {
  explicit Addresses(const std::string& line) : first(hex(line)), second(hex(line.substr(line.find(' ') + 1))) {}
  std::uint64_t first;
  std::uint64_t second;
};

}  // namespace

TEST_CASE("the own process: names, mapping, attributes") {
  Symbolizer symbolizer({});
  const Seen seen = look_at(::getpid());
  const Frame frame = resolve_one(symbolizer, seen, reinterpret_cast<std::uint64_t>(&look_at));
  CHECK(name_of(frame) == "spanfold::proc::test::look_at(int)");
  REQUIRE(frame.mapping != nullptr);
  CHECK(frame.mapping->filename == std::filesystem::read_symlink("/proc/self/exe").string());
  CHECK(frame.mapping->htlhash.size() == 32);
  CHECK(frame.address >= frame.mapping->memory_start);
  CHECK(frame.address < frame.mapping->memory_limit);
  const ProcessAttributes attributes = symbolizer.attributes(seen.key);
  REQUIRE(!attributes.empty());
  CHECK(std::is_sorted(attributes.begin(), attributes.end()));
}

TEST_CASE("another start time, another image, no image: neither mapping nor name") {
  Symbolizer symbolizer({});
  const Seen seen = look_at(::getpid());
  const auto address = reinterpret_cast<std::uint64_t>(&look_at);
  const auto check_nothing = [&](const Seen& other) {
    const Frame frame = resolve_one(symbolizer, other, address);
    CHECK(frame.mapping == nullptr);
    CHECK(frame.function == nullptr);
    CHECK(frame.address == address);
    CHECK(symbolizer.attributes(other.key).empty());
  };
  Seen other = seen;
  other.key.start_boottime_ns += 1'000'000'000;
  check_nothing(other);
  other = seen;
  other.key.exec_id = 7;
  other.image.start_stack += 16;
  check_nothing(other);
  other.key.exec_id = 8;
  other.image = {};
  check_nothing(other);
  CHECK(resolve_one(symbolizer, seen, address).function != nullptr);
}

TEST_CASE("a process that executes another program: stacks of the first get no names of the second") {
  const TemporaryFolder folder;
  const std::string first = build(folder, "first", "-no-pie -DFIRST=before -DSECOND=behind");
  const std::string script = folder / "run";
  write_text(folder / "exec.cpp", R"(
#include <cstdio>
#include <unistd.h>
int main(int, char** argv) { std::printf("%lx\n", (unsigned long)&main); std::fflush(stdout); usleep(300000); execv(argv[1], argv + 1); }
)");
  output_of("g++ -O1 -w -no-pie -o " + script + " " + (folder / "exec.cpp"));
  Child child({script, first});
  const Seen before = look_at(child.pid());
  const std::uint64_t main_address = hex(child.line());
  const std::string line = child.next_line();  // the second program runs now
  Seen after = look_at(child.pid());
  after.key.exec_id = 1;
  REQUIRE(after.image != before.image);
  Symbolizer symbolizer({});
  const Frame late = resolve_one(symbolizer, before, main_address);
  CHECK(late.mapping == nullptr);
  CHECK(late.function == nullptr);
  CHECK(name_of(resolve_one(symbolizer, after, Addresses(line).second)) == "behind(int)");
}

TEST_CASE("symbols none: mapping and address only") {
  Symbolizer symbolizer({.local_symbols = false});
  const Frame frame = resolve_one(symbolizer, look_at(::getpid()), reinterpret_cast<std::uint64_t>(&look_at));
  CHECK(frame.function == nullptr);
  CHECK(frame.mapping != nullptr);
}

TEST_CASE("return addresses are looked up minus one, the first of a half is not") {
  const TemporaryFolder folder;
  const std::string binary = build(folder, "program", "-DFIRST=first_one -DSECOND=second_one");
  Child child({binary});
  const Addresses at(child.line());
  Symbolizer symbolizer({});
  const Seen seen = look_at(child.pid());
  const std::vector<std::uint64_t> user = {at.first, at.first + 1, at.first};
  std::vector<Frame> frames;
  symbolizer.resolve(seen.key, seen.image, {}, user, frames);
  CHECK(name_of(frames[0]).starts_with("first_one(std::string const&)"));
  CHECK(name_of(frames[1]) == name_of(frames[0]));
  CHECK(frames[1].address == frames[0].address);
  CHECK(name_of(frames[2]) != name_of(frames[0]));
  CHECK(frames[2].address + 1 == frames[0].address);
}

TEST_CASE("a binary that was deleted, or replaced by another build, keeps its names") {
  if (::geteuid() != 0) {
    MESSAGE("SKIPPED: map_files needs root");
    return;
  }
  const TemporaryFolder folder;
  const std::string binary = build(folder, "program", "-DFIRST=first_one -DSECOND=second_one");
  Child child({binary});
  const Addresses at(child.line());
  SUBCASE("deleted") { REQUIRE(::unlink(binary.c_str()) == 0); }
  SUBCASE("replaced") {
    const std::string other = build(folder, "other", "-DFIRST=wrong_one -DSECOND=worse_one");
    REQUIRE(::rename(other.c_str(), binary.c_str()) == 0);
  }
  Symbolizer symbolizer({});
  const Seen seen = look_at(child.pid());
  const Frame frame = resolve_one(symbolizer, seen, at.second);
  CHECK(name_of(frame) == "second_one(int)");
  REQUIRE(frame.mapping != nullptr);
  CHECK(frame.mapping->filename == binary);
  for (const auto& [key, value] : symbolizer.attributes(seen.key)) {
    if (key == "process.executable.path") CHECK(value == binary);
  }
}

TEST_CASE("a binary that is written over in place gives no more names") {
  const TemporaryFolder folder;
  const std::string library = folder / "library";
  build(folder, "library", "-DFIRST=first_one -DSECOND=second_one");
  // An executable cannot be written while it runs; a mapped file can.
  const int fd = ::open(library.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  REQUIRE(::fstat(fd, &status) == 0);
  void* mapped = ::mmap(nullptr, status.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
  REQUIRE(mapped != MAP_FAILED);
  const auto base = reinterpret_cast<std::uint64_t>(mapped);
  const std::uint64_t second = hex(output_of("nm -C " + library + " | grep second_one"));
  const std::uint64_t first = hex(output_of("nm -C " + library + " | grep first_one"));
  Symbolizer symbolizer({});
  const Seen seen = look_at(::getpid());
  CHECK(name_of(resolve_one(symbolizer, seen, base + second)) == "second_one(int)");
  ::usleep(20'000);
  const int writer = ::open(library.c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(::pwrite(writer, "x", 1, status.st_size - 1) == 1);
  ::close(writer);
  CHECK(name_of(resolve_one(symbolizer, seen, base + first)).empty());
  ::munmap(mapped, status.st_size);
  ::close(fd);
}

TEST_CASE("processes that are gone are forgotten, their frames stay valid") {
  const TemporaryFolder folder;
  const std::string binary = build(folder, "program", "-DFIRST=first_one -DSECOND=second_one");
  Symbolizer symbolizer({});
  std::vector<Frame> frames;
  std::size_t names_bytes = 0;
  for (int round = 0; round < 20; ++round) {
    Child child({binary});
    frames.push_back(resolve_one(symbolizer, look_at(child.pid()), Addresses(child.line()).second));
    child.end();
    symbolizer.forget_gone();
    symbolizer.forget_gone();
    CHECK(symbolizer.usage().processes == 0);
    CHECK(symbolizer.usage().files == 0);
    if (round == 0) names_bytes = symbolizer.usage().names_bytes;
    CHECK(symbolizer.usage().names_bytes == names_bytes);
  }
  for (const Frame& frame : frames) {
    CHECK(name_of(frame) == "second_one(int)");
    CHECK(frame.function == frames[0].function);
    CHECK(frame.mapping == frames[0].mapping);
  }
}

// real_caller ends in a call that does not return, and innocent_next begins right behind it.
constexpr const char* kNoReturn = R"(
    .text
    .globl main, real_caller, innocent_next, spinner
    .type real_caller, @function
    .type innocent_next, @function
    .type spinner, @function
    .type main, @function
real_caller:
    push %rbp
    mov %rsp, %rbp
    call spinner
    .size real_caller, .-real_caller
innocent_next:
    ret
    .size innocent_next, .-innocent_next
spinner:
    push %rbp
    mov %rsp, %rbp
    mov 8(%rbp), %rsi
    lea format(%rip), %rdi
    xor %eax, %eax
    call printf@PLT
    xor %edi, %edi
    call fflush@PLT
1:  call pause@PLT
    jmp 1b
    .size spinner, .-spinner
main:
    push %rbp
    mov %rsp, %rbp
    call real_caller
    .size main, .-main
    .section .rodata
format: .asciz "%lx\n"
    .section .note.GNU-stack, ""
)";

TEST_CASE("a call that does not return, at the very end of its function, is its caller's") {
#if defined(__x86_64__)
  const TemporaryFolder folder;
  write_text(folder / "a.s", kNoReturn);
  output_of("gcc -o " + (folder / "a") + " " + (folder / "a.s"));
  Child child({folder / "a"});
  const std::uint64_t return_address = hex(child.line());
  Symbolizer symbolizer({});
  const Seen seen = look_at(child.pid());
  CHECK(name_of(resolve_one(symbolizer, seen, return_address)) == "innocent_next");  // as a leaf it would be right
  const std::vector<std::uint64_t> user = {0, return_address};
  std::vector<Frame> frames;
  symbolizer.resolve(seen.key, seen.image, {}, user, frames);
  CHECK(name_of(frames[1]) == "real_caller");
#endif
}

// What a signal handler returns to, right behind a function that has nothing to do with it.
constexpr const char* kTrampoline = R"(
    .text
    .globl main, innocent_before
    .type innocent_before, @function
    .type {0}, @function
    .type main, @function
innocent_before:
    ret
    .size innocent_before, .-innocent_before
{0}:
    mov $15, %rax
    syscall
    .size {0}, .-{0}
main:
    push %rbp
    mov %rsp, %rbp
    lea {0}(%rip), %rsi
    lea format(%rip), %rdi
    xor %eax, %eax
    call printf@PLT
    xor %edi, %edi
    call fflush@PLT
1:  call pause@PLT
    jmp 1b
    .size main, .-main
    .section .rodata
format: .asciz "%lx\n"
    .section .note.GNU-stack, ""
)";

TEST_CASE("what a signal handler returns to was not called, whatever lies before it") {
#if defined(__x86_64__)
  for (const std::string name : {"__restore_rt", "runtime.sigreturn__sigaction"}) {
    const TemporaryFolder folder;
    write_text(folder / "a.s", fmt::format(kTrampoline, name));
    output_of("gcc -o " + (folder / "a") + " " + (folder / "a.s"));
    Child child({folder / "a"});
    const std::uint64_t address = hex(child.line());
    Symbolizer symbolizer({});
    const Seen seen = look_at(child.pid());
    const std::vector<std::uint64_t> user = {0, address};
    std::vector<Frame> frames;
    symbolizer.resolve(seen.key, seen.image, {}, user, frames);
    CHECK(name_of(frames[1]) == name);
    CHECK(frames[1].address == resolve_one(symbolizer, seen, address).address);
  }
#endif
}

TEST_CASE("behind a system call the first user frame is looked up minus one, behind an interrupt it is not") {
  std::map<std::string, std::uint64_t> kernel;
  std::istringstream symbols(read_file("/proc/kallsyms", 256 << 20) ? *read_file("/proc/kallsyms", 256 << 20) : "");
  for (std::string address, type, name, rest; symbols >> address >> type >> name; std::getline(symbols, rest)) {
    kernel.emplace(name, hex(address));
  }
  const std::uint64_t syscall = kernel["entry_SYSCALL_64_after_hwframe"];
  const std::uint64_t fault = kernel["asm_exc_page_fault"];
  if (syscall == 0 || fault == 0) {
    MESSAGE("SKIPPED: /proc/kallsyms does not show this kernel's entries");
    return;
  }
  Symbolizer symbolizer({});
  const Seen seen = look_at(::getpid());
  const auto user = reinterpret_cast<std::uint64_t>(&look_at);
  const auto first_user = [&](std::vector<std::uint64_t> stack) {
    std::vector<Frame> frames;
    symbolizer.resolve(seen.key, seen.image, stack, std::span(&user, 1), frames);
    REQUIRE(frames.size() == stack.size() + 1);
    for (std::size_t i = 0; i < stack.size(); ++i) CHECK(frames[i].type == FrameType::kKernel);
    return name_of(frames.back());
  };
  const std::string name = "spanfold::proc::test::look_at(int)";
  CHECK(first_user({}) == name);
  CHECK(first_user({fault + 8}) == name);
  CHECK(first_user({fault + 8, fault + 8}) == name);
  CHECK(first_user({syscall + 8, syscall + 8}) != name);
  // What an interrupt stopped inside the kernel is exact too.
  std::vector<Frame> frames;
  const std::vector<std::uint64_t> stack = {fault + 8, fault + 8, syscall, syscall};
  symbolizer.resolve(seen.key, seen.image, stack, {}, frames);
  CHECK(name_of(frames[2]) == "entry_SYSCALL_64_after_hwframe");
  CHECK(name_of(frames[3]) != "entry_SYSCALL_64_after_hwframe");
}

TEST_CASE("mappings that come later are found") {
  const TemporaryFolder folder;
  Symbolizer symbolizer({});
  const Seen seen = look_at(::getpid());
  CHECK(resolve_one(symbolizer, seen, reinterpret_cast<std::uint64_t>(&look_at)).function != nullptr);
  build(folder, "library", "-DFIRST=first_one -DSECOND=second_one");
  const Fd fd(::open((folder / "library").c_str(), O_RDONLY | O_CLOEXEC));
  void* mapped = ::mmap(nullptr, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd.get(), 0);
  REQUIRE(mapped != MAP_FAILED);
  const std::uint64_t second = hex(output_of("nm -C " + (folder / "library") + " | grep second_one"));
  ::usleep(150'000);
  CHECK(name_of(resolve_one(symbolizer, seen, reinterpret_cast<std::uint64_t>(mapped) + second)) == "second_one(int)");
  ::munmap(mapped, 8192);
}

TEST_CASE("addresses that are nowhere stay addresses") {
  Symbolizer symbolizer({});
  const Seen seen = look_at(::getpid());
  for (const std::uint64_t address : {std::uint64_t{16}, std::uint64_t{0}, ~std::uint64_t{0}}) {
    const Frame frame = resolve_one(symbolizer, seen, address);
    CHECK(frame.mapping == nullptr);
    CHECK(frame.function == nullptr);
    CHECK(frame.address == address);
  }
}

TEST_CASE("the vDSO has names, a mapping of that name and ids") {
  const std::uint64_t base = ::getauxval(AT_SYSINFO_EHDR);
  REQUIRE(base != 0);
  Symbolizer symbolizer({});
  const Seen seen = look_at(::getpid());
  bool found = false;
  for (std::uint64_t at = base; at < base + 8192 && !found; at += 16) {
    const Frame frame = resolve_one(symbolizer, seen, at);
    if (name_of(frame).find("clock_gettime") == std::string::npos) continue;
    found = true;
    CHECK(frame.mapping->filename == "[vdso]");
    CHECK(!frame.mapping->build_id_gnu.empty());
    CHECK(frame.mapping->htlhash.size() == 32);
  }
  CHECK(found);
}

}  // namespace spanfold::proc::test
