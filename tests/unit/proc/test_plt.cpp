// SPDX-License-Identifier: Apache-2.0
// Stubs that call other files: against objdump on real binaries, and what linkers can be told to make of them.
#include <doctest/doctest.h>
#include <elf.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "fixture.h"
#include "named_file.h"
#include "proc/plt.h"

namespace spanfold::proc {
namespace {

using test::have_program;
using test::lines_of;
using test::NamedFile;
using test::output_of;

struct Stub {
  std::uint64_t address = 0;
  std::string name;
};

// "0000000000001030 <puts@plt>:"
std::vector<Stub> stubs_of(const std::string& path) {
  std::vector<Stub> stubs;
  for (const std::string& line : lines_of("objdump -d " + path + " | grep -E '^[0-9a-f]+ <.*@plt>:$'")) {
    const std::size_t begin = line.find('<') + 1;
    stubs.push_back({std::stoull(line, nullptr, 16), line.substr(begin, line.size() - 2 - begin)});
  }
  return stubs;
}

// objdump knows stubs of IFUNCs by the address of what chooses: we by its name, where it has one.
std::size_t check_stubs(const std::string& path) {
  const NamedFile file(path);
  const auto stubs = stubs_of(path);
  for (const Stub& stub : stubs) {
    INFO(path, " ", std::hex, stub.address, " ", stub.name);
    std::string truth = stub.name;
    constexpr std::string_view kChosen = "*ABS*+0x";
    if (truth.starts_with(kChosen)) {
      truth = file.name(std::stoull(truth.substr(kChosen.size()), nullptr, 16));
      if (!truth.empty()) truth += "@plt";
    }
    REQUIRE(file.name(stub.address) == truth);
    REQUIRE(file.name(stub.address + 5) == truth);
    REQUIRE(file.name(stub.address + 7) == truth);
  }
  return stubs.size();
}

constexpr const char* kProgram = R"(
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char** argv) {
  void* (*volatile allocate)(size_t) = malloc;
  char* text = allocate(strlen(argv[0]) + 1);
  strcpy(text, argv[0]);
  printf("%s %f\n", text, pow(argc, 2.5));
  free(text);
  return text == NULL;
}
)";

}  // namespace

TEST_CASE("stubs equal objdump's: what Debian ships") {
  if (!have_program("objdump")) return;
  std::size_t files = 0;
  std::size_t stubs = 0;
  std::vector<std::string> paths = {"/usr/bin/bash", "/usr/bin/perl", "/usr/bin/git",  "/usr/bin/objdump",
                                    "/usr/bin/ls",   "/usr/bin/make", "/usr/bin/gzip", "/usr/bin/dpkg"};
  for (const char* name : {"libc\\.so", "libstdc\\+\\+", "libelf", "libm\\.so"})
    paths.push_back(test::library_of(name));
  for (const std::string& path : paths) {
    if (!std::filesystem::exists(path)) continue;
    const std::size_t here = check_stubs(path);
    if (here > 0) ++files;
    stubs += here;
  }
  MESSAGE(stubs, " stubs of ", files, " files");
  CHECK(files >= 3);  // where only the libraries are there
  CHECK(stubs > 100);
}

TEST_CASE("stubs equal objdump's: whatever the linker makes of them") {
  if (!have_program("gcc") || !have_program("objdump")) return;
  const test::TemporaryFolder folder;
  test::write_text(folder / "a.c", kProgram);
  std::vector<std::string> flags = {"-pie",
                                    "-no-pie",
                                    "-Wl,-z,lazy",
                                    "-Wl,-z,now",
                                    "-fcf-protection=full -Wl,-z,ibtplt",
                                    "-fcf-protection=full -Wl,-z,ibtplt,-z,now",
                                    "-fcf-protection=full -Wl,-z,ibtplt -no-pie",
                                    "-fno-plt",
                                    "-fuse-ld=gold"};
  if (have_program("ld.lld")) flags.insert(flags.end(), {"-fuse-ld=lld", "-fuse-ld=lld -Wl,-z,force-ibt"});
  for (const std::string& each : flags) {
    INFO(each);
    output_of("gcc -O1 -w -o " + (folder / "a") + " " + (folder / "a.c") + " -lm " + each);
    const std::size_t whole = check_stubs(folder / "a");
    if (each != "-fno-plt") CHECK(whole >= 5);
    output_of("strip " + (folder / "a"));
    CHECK(check_stubs(folder / "a") == whole);
  }
}

TEST_CASE("stubs of a static program are what IFUNCs choose") {
  if (!have_program("gcc")) return;
  const test::TemporaryFolder folder;
  test::write_text(folder / "a.c", kProgram);
  output_of("gcc -O1 -w -static -no-pie -o " + (folder / "a") + " " + (folder / "a.c") + " -lm");
  const NamedFile file(folder / "a");
  std::map<std::string, std::string> choosers;  // slot → address of what chooses
  for (const std::string& line : lines_of("readelf -rW " + (folder / "a") + " | grep IRELATIV")) {
    std::istringstream words(line);
    std::string slot, info, type, chooser;
    words >> slot >> info >> type >> chooser;
    choosers[slot.substr(slot.find_first_not_of('0'))] = chooser;
  }
  std::size_t checked = 0;
  // "  401018: ff 25 e2 6f 0a 00  jmp *0xa6fe2(%rip)  # 4a8000 <…>"
  for (const std::string& line : lines_of("objdump -d -j .plt " + (folder / "a") + " | grep 'jmp .*# '")) {
    const std::string slot = line.substr(line.find("# ") + 2);
    const std::string chooser = file.name(std::stoull(choosers.at(slot.substr(0, slot.find(' '))), nullptr, 16));
    REQUIRE(!chooser.empty());
    CHECK(file.name(std::stoull(line, nullptr, 16)) == chooser + "@plt");
    ++checked;
  }
  CHECK(checked > 5);
}

#if defined(__x86_64__)
TEST_CASE("the first half of a stub with IBT, which only the first call takes, has the name too") {
  if (!have_program("gcc") || !have_program("objdump")) return;
  const test::TemporaryFolder folder;
  test::write_text(folder / "a.c", kProgram);
  output_of("gcc -O1 -w -fcf-protection=full -Wl,-z,ibtplt,-z,lazy -o " + (folder / "a") + " " + (folder / "a.c") +
            " -lm");
  const NamedFile file(folder / "a");
  const auto plt = file.elf().section_named(".plt");
  REQUIRE(plt.has_value());
  const auto relocations =
      lines_of("readelf -rW " + (folder / "a") + " | grep JUMP_SLO | awk '{ print $5 }' | sed 's/@.*//'");
  REQUIRE(relocations.size() >= 5);
  CHECK(file.name(plt->sh_addr) == "");
  CHECK(file.name(plt->sh_addr + 8) == "");
  for (std::size_t i = 0; i < relocations.size(); ++i) {
    CHECK(file.name(plt->sh_addr + 16 * (i + 1)) == relocations[i] + "@plt");
  }
}
#endif

TEST_CASE("stubs of arm64, as its linkers write them") {
  const auto code_of = [](const std::vector<std::uint32_t>& words) {
    return std::string(reinterpret_cast<const char*>(words.data()), words.size() * 4);
  };
  // The header: stp x16, x30, [sp, #-16]!; adrp x16, 1f000; ldr x17, [x16, #4088]; add; br x17; nop × 3
  const std::vector<std::uint32_t> header = {0xa9bf7bf0, 0xf00000f0, 0xf947fe11, 0x913fe210,
                                             0xd61f0220, 0xd503201f, 0xd503201f, 0xd503201f};
  // adrp x16, 20000; ldr x17, [x16]; add x16, x16, #0; br x17; and the next slot
  std::vector<std::uint32_t> plain = header;
  plain.insert(plain.end(),
               {0x90000110, 0xf9400211, 0x91000210, 0xd61f0220, 0x90000110, 0xf9400611, 0x91002210, 0xd61f0220});
  auto jumps = find_plt_jumps(EM_AARCH64, code_of(plain), 0x0);
  REQUIRE(jumps.size() == 3);
  CHECK(jumps[0].slot == 0x1fff8);
  CHECK(jumps[1].address == 0x20);
  CHECK(jumps[1].bytes == 16);
  CHECK(jumps[1].slot == 0x20000);
  CHECK(jumps[2].address == 0x30);
  CHECK(jumps[2].slot == 0x20008);
  // With branch target identification and pointer authentication, and a page that lies before: bti c; adrp x16,
  // -0x1000; ldr x17, [x16, #16]; add; autia1716; br x17
  const std::vector<std::uint32_t> guarded = {0xd503245f, 0xf0fffff0, 0xf9400a11, 0x91004210, 0xd503219f, 0xd61f0220};
  jumps = find_plt_jumps(EM_AARCH64, code_of(guarded), 0x5000);
  REQUIRE(jumps.size() == 1);
  CHECK(jumps[0].address == 0x5000);
  CHECK(jumps[0].bytes == 24);
  CHECK(jumps[0].slot == 0x4010);
  for (std::size_t length = 0; length < guarded.size() * 4; ++length) {
    CHECK(find_plt_jumps(EM_AARCH64, code_of(guarded).substr(0, length), 0x5000).empty());
  }
}

TEST_CASE("stubs: random code never crashes") {
  std::mt19937 random(4);
  for (int round = 0; round < 20'000; ++round) {
    std::string code(random() % 64, '\0');
    constexpr unsigned char kPieces[] = {0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0x68, 0xf0, 0x90, 0x11, 0x02};
    for (char& byte : code) byte = static_cast<char>(random() % 2 == 0 ? kPieces[random() % sizeof kPieces] : random());
    for (const std::uint16_t machine : std::initializer_list<std::uint16_t>{EM_X86_64, EM_AARCH64, EM_386}) {
      (void)find_plt_jumps(machine, code, ~std::uint64_t{0} - random() % 64);
    }
  }
}

}  // namespace spanfold::proc
