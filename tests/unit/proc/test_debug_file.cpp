// SPDX-License-Identifier: Apache-2.0
// Debug files: each place where they are looked for, and everything that must not be taken for one.
#include <doctest/doctest.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "fixture.h"
#include "proc/debug_file.h"
#include "proc/symbol_table.h"
#include "proc/symbolizer.h"

namespace spanfold::proc {
namespace {

using test::have_program;
using test::output_of;
using test::TemporaryFolder;
using test::write_text;

constexpr const char* kProgram = R"(
#include <stdio.h>
#include <unistd.h>
#ifdef PADDING
int padding(int v) { asm volatile(".skip 4096, 0x90"); return v; }
#endif
static __attribute__((noinline)) int hidden_one(int v) { asm volatile(""); return v * 3; }
int shown(int v) { return hidden_one(v) - 1; }
int main(void) {
  printf("%lx %d\n", (unsigned long)hidden_one, shown(1));
  fflush(stdout);
  for (;;) pause();
}
)";

Fd open_folder(const std::string& path) { return Fd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)); }

// A root with a stripped /app/program that links to "program.debug", and its debug file, which stands nowhere yet.
struct Root {
  explicit Root(const std::string& flags = "") {
    write_text(folder / "a.c", kProgram);
    std::filesystem::create_directories(folder / "root/app/.debug");
    output_of("cd " + folder.path().string() + " && gcc -O1 -g -o whole a.c " + flags +
              " && objcopy --only-keep-debug whole program.debug && strip -o root/app/program whole && "
              "objcopy --add-gnu-debuglink=program.debug root/app/program");
    hidden = std::stoull(output_of("nm " + (folder / "whole") + " | grep ' hidden_one$'"), nullptr, 16);
    const MemorySource whole(*read_file(folder / "whole", 1 << 20));
    id = ElfFile::read(whole)->build_ids().gnu;
    source = std::make_shared<MemorySource>(*read_file(folder / "root/app/program", 1 << 20));
    elf = ElfFile::read(*source);
  }
  [[nodiscard]] std::string place_by_id() const {
    return "/usr/lib/debug/.build-id/" + id.substr(0, 2) + "/" + id.substr(2) + ".debug";
  }
  void put(const std::string& place, const std::string& file) const {
    std::filesystem::create_directories(std::filesystem::path(folder / ("root" + place)).parent_path());
    std::filesystem::copy_file(file, folder / ("root" + place));
  }
  [[nodiscard]] std::string debug() const { return folder / "program.debug"; }
  [[nodiscard]] std::vector<DebugCandidate> candidates() const {
    return open_debug_candidates(open_folder(folder.path()).get(), "/app/program", *elf, *source);
  }
  // The name of the local function.
  [[nodiscard]] std::string name() const {
    const SymbolTable table = SymbolTable::read(source, choose_debug_file(candidates(), *elf));
    const std::size_t index = table.find(hidden);
    return index == SymbolRanges::kNone ? "" : table.name(index);
  }

  TemporaryFolder folder;
  std::uint64_t hidden = 0;
  std::string id;
  std::shared_ptr<const MemorySource> source;
  std::optional<ElfFile> elf;
};

}  // namespace

TEST_CASE("debug file: each place") {
  if (!have_program("gcc") || !have_program("objcopy")) return;
  const Root root;
  REQUIRE(!root.id.empty());
  CHECK(root.name().empty());
  std::string place;
  SUBCASE("by build id") { place = root.place_by_id(); }
  SUBCASE("beside it") { place = "/app/program.debug"; }
  SUBCASE("in .debug") { place = "/app/.debug/program.debug"; }
  SUBCASE("under /usr/lib/debug") { place = "/usr/lib/debug/app/program.debug"; }
  root.put(place, root.debug());
  CHECK(root.candidates().size() == 1);
  CHECK(root.name() == "hidden_one");
}

TEST_CASE("debug file: a link is followed, inside the root") {
  if (!have_program("gcc") || !have_program("objcopy")) return;
  const Root root;
  root.put("/store/one.debug", root.debug());
  std::filesystem::create_directories(std::filesystem::path(root.folder / ("root" + root.place_by_id())).parent_path());
  SUBCASE("relative") {
    std::filesystem::create_symlink("../../../../../store/one.debug", root.folder / ("root" + root.place_by_id()));
  }
  SUBCASE("absolute") {
    std::filesystem::create_symlink("/store/one.debug", root.folder / ("root" + root.place_by_id()));
  }
  CHECK(root.name() == "hidden_one");
}

TEST_CASE("debug file: what is not certainly of the file is not used") {
  if (!have_program("gcc") || !have_program("objcopy")) return;
  const Root root;
  const std::string beside = root.folder / "root/app/program.debug";
  std::string bytes = *read_file(root.debug(), 1 << 20);
  SUBCASE("a byte was changed: the CRC is wrong, though the build id is right") {
    bytes.back() = static_cast<char>(bytes.back() + 1);
    write_text(beside, bytes);
  }
  SUBCASE("it is longer") { write_text(beside, bytes + '\0'); }
  SUBCASE("it is cut") { write_text(beside, bytes.substr(0, bytes.size() / 2)); }
  SUBCASE("it is empty") { write_text(beside, ""); }
  SUBCASE("it is the file itself") { root.put("/app/program.debug", root.folder / "root/app/program"); }
  SUBCASE("another build id") {
    const Root other("-Wl,--build-id=0x1234");
    root.put(root.place_by_id(), other.debug());
  }
  SUBCASE("no build id") {
    const Root other("-Wl,--build-id=none");
    root.put(root.place_by_id(), other.debug());
  }
  SUBCASE("the build id is right, but another function lies there") {
    const Root other("-DPADDING -Wl,--build-id=0x" + root.id);
    REQUIRE(other.id == root.id);
    root.put(root.place_by_id(), other.debug());
  }
  SUBCASE("a FIFO") { REQUIRE(::mkfifo(beside.c_str(), 0600) == 0); }
  SUBCASE("a folder") { REQUIRE(::mkdir(beside.c_str(), 0700) == 0); }
  SUBCASE("a terminal") { REQUIRE(::symlink("/dev/tty", beside.c_str()) == 0); }
  SUBCASE("a link out of the root") { REQUIRE(::symlink(root.debug().c_str(), beside.c_str()) == 0); }
  SUBCASE("a way out of the root") {
    REQUIRE(::symlink("../../../../../../../../../../../../../..", (root.folder / "root/usr").c_str()) == 0);
  }
  SUBCASE("a link to itself") { REQUIRE(::symlink("program.debug", beside.c_str()) == 0); }
  CHECK(root.name().empty());
}

TEST_CASE("debug file: without a build id, the CRC alone tells") {
  if (!have_program("gcc") || !have_program("objcopy")) return;
  const Root root("-Wl,--build-id=none");
  REQUIRE(root.id.empty());
  root.put("/app/program.debug", root.debug());
  CHECK(root.name() == "hidden_one");
}

TEST_CASE("debug file: none is opened for a file with symbols of its own, and none of no ELF file is read") {
  if (!have_program("gcc") || !have_program("objcopy")) return;
  const Root root;
  root.put("/app/program.debug", root.debug());
  const MemorySource whole(*read_file(root.folder / "whole", 1 << 20));
  const Fd folder = open_folder(root.folder.path());
  CHECK(open_debug_candidates(folder.get(), "/app/program", *ElfFile::read(whole), whole).empty());
  CHECK(open_debug_candidates(folder.get(), "app/program", *root.elf, *root.source).empty());
  write_text(root.folder / "root/app/program.debug", "no ELF file");
  CHECK(root.candidates().size() == 1);
  CHECK(root.name().empty());
}

TEST_CASE("debug file: links that lie") {
  if (!have_program("gcc") || !have_program("objcopy")) return;
  const Root root;
  const auto section = root.elf->section_named(".gnu_debuglink");
  REQUIRE(section.has_value());
  const auto link_of = [&](const std::string& text) {
    std::string bytes(root.source->bytes());
    bytes.resize(bytes.size() + 1024);
    REQUIRE(text.size() <= section->sh_size);
    bytes.replace(section->sh_offset, section->sh_size, text + std::string(section->sh_size - text.size(), 'x'));
    const MemorySource source(bytes);
    return read_debug_link(*ElfFile::read(source), source);
  };
  REQUIRE(link_of(std::string("name\0\0\0\0\1\2\3\4", 12)).has_value());
  CHECK(link_of(std::string("name\0\0\0\0\1\2\3\4", 12))->name == "name");
  CHECK(link_of(std::string("name\0\0\0\0\1\2\3\4", 12))->crc == 0x04030201);
  CHECK(link_of(std::string("abc\0\1\2\3\4", 8))->crc == 0x04030201);
  for (const std::string& text :
       {std::string("../a\0\0\0\0\1\2\3\4", 12), std::string("/a\0\0\1\2\3\4", 8), std::string("..\0\0\1\2\3\4", 8),
        std::string(".\0\0\0\1\2\3\4", 8), std::string("\0\0\0\0\1\2\3\4", 8), std::string("no end of it at all")}) {
    CHECK(!link_of(text).has_value());
  }
}

TEST_CASE("debug file: one that lies, though its build id is right, names nothing and costs nothing") {
  if (!have_program("gcc") || !have_program("objcopy")) return;
  const Root root;
  const std::string honest = *read_file(root.debug(), 1 << 20);
  // With what stands in front of each symbol table's section header, and in the file's.
  const auto name_with = [&](auto change) {
    std::string bytes = honest;
    auto* header = reinterpret_cast<Elf64_Ehdr*>(bytes.data());
    auto* sections = reinterpret_cast<Elf64_Shdr*>(bytes.data() + header->e_shoff);
    for (unsigned i = 0; i < header->e_shnum; ++i) {
      if (sections[i].sh_type == SHT_SYMTAB)
        return change(*header, sections[i]), write_text(root.folder / "lie", bytes);
    }
    FAIL("no .symtab");
  };
  const auto begin = std::chrono::steady_clock::now();
  std::string expected;
  SUBCASE("sh_entsize is 0") {
    name_with([](auto&, auto& section) { section.sh_entsize = 0; });
  }
  SUBCASE("e_shoff beyond the end") {
    name_with([](auto& header, auto&) { header.e_shoff = 1ULL << 40; });
  }
  SUBCASE("symbols beyond the end") {
    name_with([](auto&, auto& section) { section.sh_offset = ~0ULL; });
  }
  SUBCASE("2^32 symbols") {
    name_with([](auto&, auto& section) { section.sh_size = sizeof(Elf64_Sym) << 32; });
    expected = "hidden_one";  // those that are there are what they were
  }
  root.put(root.place_by_id(), root.folder / "lie");
  CHECK(root.name() == expected);
  CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < 5);
}

TEST_CASE("debug file: cut while it is in use, it names nothing more") {
  if (!have_program("gcc") || !have_program("objcopy")) return;
  const Root root;
  root.put(root.place_by_id(), root.debug());
  const auto candidates = root.candidates();
  const auto chosen = choose_debug_file(candidates, *root.elf);
  REQUIRE(chosen != nullptr);
  const SymbolTable table = SymbolTable::read(root.source, chosen);
  const std::size_t index = table.find(root.hidden);
  REQUIRE(index != SymbolRanges::kNone);
  CHECK(table.name(index) == "hidden_one");
  REQUIRE(::truncate((root.folder / ("root" + root.place_by_id())).c_str(), 100) == 0);
  CHECK(table.name(index).empty());
  CHECK(!table.unchanged());
}

TEST_CASE("debug file: names of a running process that was stripped") {
  if (!have_program("gcc") || !have_program("objcopy")) return;
  const Root root;
  const std::string program = root.folder / "root/app/program";
  const auto named = [&](const std::string& path) {
    test::Child child({path});
    const test::Seen seen = test::look_at(child.pid());
    const std::uint64_t address = std::stoull(child.line(), nullptr, 16);
    Symbolizer symbolizer({});
    std::vector<Frame> frames;
    symbolizer.notice(seen.key, seen.image, 0);
    child.end();  // what was noticed is named though the process is gone
    symbolizer.resolve(seen.key, seen.image, {}, std::span(&address, 1), frames);
    return frames[0].function == nullptr ? "" : *frames[0].function;
  };
  CHECK(named(program).empty());
  root.put("/app/program.debug", root.debug());
  CHECK(named(program) == "hidden_one");
}

TEST_CASE("debug file: one of an upgrade does not name what ran before it") {
  if (::geteuid() != 0) {
    MESSAGE("SKIPPED: map_files needs root");
    return;
  }
  if (!have_program("gcc") || !have_program("objcopy")) return;
  for (const bool with_ids : {true, false}) {
    CAPTURE(with_ids);
    const std::string ids = with_ids ? "" : "-Wl,--build-id=none ";
    const Root before(ids);
    const Root after(ids + "-DPADDING");
    const std::string program = before.folder / "root/app/program";
    before.put("/app/program.debug", before.debug());
    test::Child child({program});
    const std::uint64_t address = std::stoull(child.line(), nullptr, 16);
    const auto name = [&] {
      const test::Seen seen = test::look_at(child.pid());
      Symbolizer symbolizer({});
      std::vector<Frame> frames;
      symbolizer.resolve(seen.key, seen.image, {}, std::span(&address, 1), frames);
      return frames[0].function == nullptr ? "" : *frames[0].function;
    };
    CHECK(name() == "hidden_one");
    // The program goes, its debug file stays: it is of no file that can be found now, or of the right one.
    REQUIRE(std::filesystem::remove(program));
    CHECK((name().empty() || name() == "hidden_one"));
    // Both are new.
    std::filesystem::copy_file(after.folder / "root/app/program", program);
    std::filesystem::remove(before.folder / "root/app/program.debug");
    before.put("/app/program.debug", after.debug());
    CHECK(name().empty());
  }
}

}  // namespace spanfold::proc
