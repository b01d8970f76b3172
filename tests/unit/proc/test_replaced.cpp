// SPDX-License-Identifier: Apache-2.0
// Each thing that may stand where a process has a file: nothing blocks, nothing is read that lies elsewhere, and names
// are those of what is mapped, or none.
#include <doctest/doctest.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "fixture.h"
#include "jit_fixture.h"
#include "proc/symbolizer.h"

namespace spanfold::proc::test {
namespace {

constexpr double kSoonSeconds = 5;
constexpr useconds_t kOnceMore = 120'000;  // logs are read again after 100 ms

using Put = std::function<void(const std::string& path)>;
using Forms = std::vector<std::pair<std::string, Put>>;

std::string changed(std::string elf, const std::function<void(Elf64_Ehdr&, Elf64_Shdr&)>& change) {
  auto* header = reinterpret_cast<Elf64_Ehdr*>(elf.data());
  const std::uint64_t sections = header->e_shoff;
  for (unsigned i = 0; i < header->e_shnum; ++i) {
    auto* section = reinterpret_cast<Elf64_Shdr*>(elf.data() + sections) + i;
    if (section->sh_type == SHT_SYMTAB || section->sh_type == SHT_DYNSYM) change(*header, *section);
  }
  return elf;
}

// ELF files that lie, made of an honest one.
Forms lies(const std::string& elf) {
  const auto put = [](std::string bytes) {
    return [bytes = std::move(bytes)](const std::string& path) { write_text(path, bytes); };
  };
  return {{"sh_entsize is 0", put(changed(elf, [](auto&, auto& section) { section.sh_entsize = 0; }))},
          {"e_shoff beyond the end", put(changed(elf, [](auto& header, auto&) { header.e_shoff = 1ULL << 40; }))},
          {"2^32 symbols", put(changed(elf, [](auto&, auto& section) { section.sh_size = sizeof(Elf64_Sym) << 32; }))},
          {"cut in the middle", put(elf.substr(0, elf.size() / 2))}};
}

// All that is no file, or not the file.
Forms forms(const std::string& elf, const std::string& secret) {
  Forms all = lies(elf);
  all.emplace_back("a FIFO", [](const auto& path) { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); });
  all.emplace_back("a folder", [](const auto& path) { REQUIRE(::mkdir(path.c_str(), 0700) == 0); });
  all.emplace_back("an empty file", [](const auto& path) { write_text(path, ""); });
  all.emplace_back("/etc/shadow", [](const auto& path) { REQUIRE(::symlink("/etc/shadow", path.c_str()) == 0); });
  all.emplace_back("a terminal", [](const auto& path) { REQUIRE(::symlink("/dev/tty", path.c_str()) == 0); });
  all.emplace_back("a secret", [=](const auto& path) { REQUIRE(::symlink(secret.c_str(), path.c_str()) == 0); });
  all.emplace_back("no end", [](const auto& path) { REQUIRE(::symlink("/dev/zero", path.c_str()) == 0); });
  all.emplace_back("a link to itself", [](const auto& path) { REQUIRE(::symlink(path.c_str(), path.c_str()) == 0); });
  return all;
}

void replace(const std::string& path, const Put& put) {
  std::filesystem::remove_all(path);
  put(path);
}

// A shared library of one function, and where that lies in the file.
struct Library {
  Library() {
    write_text(folder / "a.c", "int shown(int v) { return v * 3 + 1; }\n");
    output_of("gcc -O1 -shared -fPIC -Wl,-z,noseparate-code -o " + (folder / "lib.so") + " " + (folder / "a.c"));
    bytes = *read_file(folder / "lib.so", 1 << 20);
    // Without separate code, the file is mapped as it is, from its beginning.
    offset = std::stoull(output_of("nm -D " + (folder / "lib.so") + " | grep ' shown$'"), nullptr, 16);
  }
  TemporaryFolder folder;
  std::string bytes;
  std::uint64_t offset = 0;
};

// A file that this process maps as code.
class Mapped {
 public:
  explicit Mapped(const std::string& path) {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    memory_ = ::mmap(nullptr, kBytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd.get(), 0);
    REQUIRE(memory_ != MAP_FAILED);
  }
  ~Mapped() { ::munmap(memory_, kBytes); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  [[nodiscard]] std::uint64_t at(std::uint64_t offset) const {
    return reinterpret_cast<std::uint64_t>(memory_) + offset;
  }

 private:
  static constexpr std::size_t kBytes = 16384;
  void* memory_;
};

// Generated code, as far as anybody outside can tell.
class Code {
 public:
  Code() : memory_(::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Code() { ::munmap(memory_, 4096); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(memory_); }

 private:
  void* memory_;
};

struct Answer {
  std::string name;
  std::string filename;
};

Answer ask(Symbolizer& symbolizer, std::uint64_t address) {
  const auto begin = std::chrono::steady_clock::now();
  const Seen seen = look_at(::getpid());
  std::vector<Frame> frames;
  symbolizer.resolve(seen.key, seen.image, {}, std::span(&address, 1), frames);
  CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < kSoonSeconds);
  REQUIRE(frames.size() == 1);
  return {frames[0].function == nullptr ? "" : *frames[0].function,
          frames[0].mapping == nullptr ? "" : frames[0].mapping->filename};
}

std::string map_line(std::uint64_t address, const std::string& name) {
  char line[128];
  std::snprintf(line, sizeof line, "%lx 100 %s\n", address, name.c_str());
  return line;
}

// Only root may follow a mapping to a file that has lost its name.
bool sees_removed_files() { return ::geteuid() == 0; }

}  // namespace

TEST_CASE("replaced: a mapped library keeps its names, or has none, whatever stands in its place") {
  if (!have_program("gcc") || !have_program("nm")) return;
  const Library library;
  const std::string secret = library.folder / "secret";
  output_of("sed 's/shown/other/g' " + (library.folder / "lib.so") + " > " + secret);
  for (const auto& each : forms(library.bytes, secret)) {
    const auto& form = each.first;
    const auto& put = each.second;
    CAPTURE(form);
    const std::string path = library.folder / "mapped.so";
    replace(path, [&](const std::string& file) { write_text(file, library.bytes); });
    const Mapped mapped(path);
    Symbolizer symbolizer({});
    replace(path, put);
    const Answer answer = ask(symbolizer, mapped.at(library.offset));
    CHECK(answer.name == (sees_removed_files() ? "shown" : ""));
    if (sees_removed_files()) CHECK(answer.filename == path);
  }
}

TEST_CASE("replaced: a library that lies gives offsets and no name") {
  if (!have_program("gcc") || !have_program("nm")) return;
  const Library library;
  for (const auto& each : lies(library.bytes)) {
    const auto& form = each.first;
    const auto& put = each.second;
    CAPTURE(form);
    const std::string path = library.folder / "lying.so";
    replace(path, put);
    const Mapped mapped(path);
    Symbolizer symbolizer({});
    const Answer answer = ask(symbolizer, mapped.at(library.offset));
    // So many symbols are not there, but those that are say what they are of.
    CHECK(answer.name == (form == "2^32 symbols" ? "shown" : ""));
    CHECK(answer.filename == path);
  }
}

TEST_CASE("replaced: a library that is cut while it is in use gives no more names") {
  if (!have_program("gcc") || !have_program("nm")) return;
  const Library library;
  const Mapped mapped(library.folder / "lib.so");
  Symbolizer symbolizer({});
  CHECK(ask(symbolizer, mapped.at(0)).name.empty());  // opens the file
  REQUIRE(::truncate((library.folder / "lib.so").c_str(), 100) == 0);
  CHECK(ask(symbolizer, mapped.at(library.offset)).name.empty());
}

TEST_CASE("replaced: nothing but a file is taken for a perf map, and of no file a name that it does not say") {
  if (!have_program("gcc") || !have_program("nm")) return;
  const Library library;
  const Code code;
  const std::string secret = library.folder / "secret";
  write_text(secret, map_line(code.address(), "secret"));
  const std::string path = "/tmp/perf-" + std::to_string(::getpid()) + ".map";
  for (const auto& each : forms(library.bytes, secret)) {
    const auto& form = each.first;
    const auto& put = each.second;
    CAPTURE(form);
    replace(path, put);
    Symbolizer symbolizer({});
    const Answer answer = ask(symbolizer, code.address() + 8);
    CHECK(answer.name.empty());
    CHECK(answer.filename == "[anon jit]");
  }
  replace(path, [&](const std::string& file) { write_text(file, map_line(code.address(), "honest")); });
  Symbolizer symbolizer({});
  CHECK(ask(symbolizer, code.address() + 8).name == "honest");
  REQUIRE(::truncate(path.c_str(), 3) == 0);
  ::usleep(kOnceMore);
  CHECK(ask(symbolizer, code.address() + 9).name.empty());
  std::filesystem::remove_all(path);
}

TEST_CASE("replaced: a dump is the file that is mapped, whatever stands in its place") {
  if (!have_program("gcc") || !have_program("nm")) return;
  const Library library;
  const Code code;
  const auto pid = static_cast<std::uint32_t>(::getpid());
  const auto dump = [&](const char* name) { return dump_header(pid) + dump_load(code.address(), 256, name); };
  const std::string secret = library.folder / "secret";
  write_text(secret, dump("secret"));
  const std::string path = library.folder / "jit-1.dump";
  for (const auto& each : forms(library.bytes, secret)) {
    const auto& form = each.first;
    const auto& put = each.second;
    CAPTURE(form);
    replace(path, [&](const std::string& file) { write_text(file, dump("honest")); });
    const Mapped mapped(path);
    replace(path, put);
    Symbolizer symbolizer({});
    CHECK(ask(symbolizer, code.address() + 8).name == (sees_removed_files() ? "honest" : ""));
  }
  for (const auto& each : lies(library.bytes)) {
    const auto& form = each.first;
    const auto& put = each.second;
    CAPTURE(form);
    replace(path, put);
    const Mapped mapped(path);
    Symbolizer symbolizer({});
    CHECK(ask(symbolizer, code.address() + 8).name.empty());
  }
  replace(path, [&](const std::string& file) { write_text(file, dump("honest")); });
  const Mapped mapped(path);
  Symbolizer symbolizer({});
  CHECK(ask(symbolizer, code.address() + 8).name == "honest");
  REQUIRE(::truncate(path.c_str(), 50) == 0);
  ::usleep(kOnceMore);
  CHECK(ask(symbolizer, code.address() + 9).name.empty());
}

}  // namespace spanfold::proc::test
