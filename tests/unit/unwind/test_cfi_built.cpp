// SPDX-License-Identifier: Apache-2.0
// Files that are built here, by the compilers and linkers that there are, and the vDSO of this kernel.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "compare.h"
#include "unit/temporary_folder.h"
#include "unwind/cfi.h"
#include "world.h"

namespace spanfold::unwind::test {
namespace {

using spanfold::test::TemporaryFolder;

bool have_program(const std::string& name) {
  const bool have = ::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0;
  if (!have) MESSAGE("SKIPPED: ", name, " is not installed");
  return have;
}

void run(const std::string& command) {
  INFO(command);
  REQUIRE(::system((command + " 2>&1").c_str()) == 0);
}

std::string file_with(const TemporaryFolder& folder, const char* name, const char* text) {
  std::ofstream(folder / name) << text;
  return folder / name;
}

// Frames of all kinds: large, variable, realigned, none; calls that do not return; a switch.
constexpr const char* kProgram = R"(
extern void use(void *);
extern int more(int, ...);
__attribute__((noreturn)) extern void leave(void);
int leaf(int a) { return a * 3 + 1; }
int large(int a) { char room[1200000]; use(room); return more(a) + room[a]; }
int variable(int a) { char *room = __builtin_alloca(a); use(room); return more(a); }
int aligned(int a) { __attribute__((aligned(64))) char room[64]; char more_room[a]; use(room); use(more_room); return more(a); }
int early(int a) { if (a < 3) return a; int b = more(a); if (b) leave(); for (int i = 0; i < b; ++i) a += more(i, a, b); return a; }
int many(int a, int b, int c, int d, int e, int f, int g) { return more(a, b, c, d, e, f, g, early(a), large(b)) + c; }
)";

std::unique_ptr<proc::FileSource> open_source(const std::string& path) {
  auto fd = open_read(path);
  struct stat status {};
  REQUIRE(fd);
  REQUIRE(::fstat(fd->get(), &status) == 0);
  return std::make_unique<proc::FileSource>(*std::move(fd), status);
}

// By the naive reader and by libdw, all rows.
void check_file(const std::string& path, std::uint64_t least_functions) {
  CAPTURE(path);
  const auto table = read_table(*open_source(path));
  REQUIRE(table.has_value());
  const TrueFile file(path);
  REQUIRE(file.good());
  const Tally naive = compare_with_naive(*table, file, 1);
  const Tally libdw = compare_with_libdw(*table, file, 1);
  CHECK(naive.functions >= least_functions);
  CHECK(naive.comparisons == libdw.comparisons);
  CHECK(naive.unsupported == 0);
  CHECK(naive.half_known == 0);
}

}  // namespace

TEST_CASE("tables of what compilers and linkers for x86-64 make") {
  if (!have_program("gcc") || !have_program("clang")) return;
  const TemporaryFolder folder;
  const std::string source = file_with(folder, "a.c", kProgram);
  int at = 0;
  for (const char* compiler : {"gcc", "clang"}) {
    for (const char* options :
         {"-O0", "-O2", "-O3 -fomit-frame-pointer -mstackrealign", "-O2 -fno-omit-frame-pointer -fcf-protection"}) {
      for (const char* linker : {"bfd", "gold", "lld"}) {
        if (::access((std::string("/usr/bin/ld.") + linker).c_str(), X_OK) != 0) continue;
        const std::string out = folder / ("a" + std::to_string(at++) + ".so");
        CAPTURE(compiler);
        CAPTURE(options);
        CAPTURE(linker);
        run(fmt::format("{} -w -fPIC -shared -nostdlib {} -fuse-ld={} -o {} {}", compiler, options, linker, out,
                        source));
        check_file(out, 6);
        // Without sections the same table but for what sections tell of gaps.
        if (::system("command -v llvm-strip >/dev/null 2>&1") != 0) continue;
        const auto with = read_table(*open_source(out));
        run("llvm-strip --strip-sections " + out);
        const auto without = read_table(*open_source(out));
        REQUIRE(without.has_value());
        for (const Row& row : with->rows) {
          const std::uint64_t address = with->base + row.start;
          const Rule& rule = rule_at(*with, address);
          if (rule.cfa != Cfa::kNone) CHECK(rule_at(*without, address) == rule);
        }
      }
    }
  }
}

TEST_CASE("tables of what clang and lld make for arm64") {
  if (!have_program("clang") || !have_program("ld.lld")) return;
  const TemporaryFolder folder;
  const std::string source = file_with(folder, "a.c", kProgram);
  int at = 0;
  for (const char* options : {"-O0", "-O2", "-O2 -fomit-frame-pointer", "-O2 -mbranch-protection=pac-ret+leaf",
                              "-O2 -mbranch-protection=pac-ret+b-key"}) {
    CAPTURE(options);
    const std::string out = folder / ("a" + std::to_string(at++) + ".so");
    run(
        fmt::format("clang --target=aarch64-linux-gnu -w -fPIC -shared -nostdlib -fasynchronous-unwind-tables "
                    "-fuse-ld=lld {} -o {} {}",
                    options, out, source));
    check_file(out, 6);
  }
}

TEST_CASE("tables of what is only in .debug_frame, in the file and beside it") {
  if (!have_program("gcc") || !have_program("objcopy")) return;
  const TemporaryFolder folder;
  const std::string source = file_with(folder, "a.c", kProgram);
  const std::string out = folder / "a.so";
  for (const char* packed : {"none", "zlib"}) {
    CAPTURE(packed);
    run(fmt::format("gcc -w -g -O2 -fPIC -shared -nostdlib -fno-asynchronous-unwind-tables -gz={} -o {} {}", packed,
                    out, source));
    const auto whole = read_table(*open_source(out));
    REQUIRE(whole.has_value());
    const TrueFile file(out, true);
    REQUIRE(file.good());
    const Tally tally = compare_with_naive(*whole, file, 1);
    CHECK(tally.functions == 6);
    CHECK(compare_with_libdw(*whole, file, 1).comparisons == tally.comparisons);
    run("objcopy --only-keep-debug " + out + " " + (folder / "a.debug"));
    run("strip " + out);
    const auto bare = read_table(*open_source(out));  // of what the linker made of calls, at most
    CHECK((!bare || bare->rows.size() < 8));
    const auto split = open_source(folder / "a.debug");
    const auto joined = read_table(*open_source(out), split.get());
    REQUIRE(joined.has_value());
    CHECK(joined->rows == whole->rows);
    CHECK(joined->rules == whole->rules);
  }
}

TEST_CASE("the table of the vDSO, from its own image") {
  // "7ffd4f5f1000-7ffd4f5f3000 r-xp 00000000 00:00 0    [vdso]"
  std::string image;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (!line.ends_with("[vdso]")) continue;
    const std::size_t dash = line.find('-');
    const auto begin = std::stoull(line.substr(0, dash), nullptr, 16);
    const auto end = std::stoull(line.substr(dash + 1), nullptr, 16);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): it is told as a number
    image.assign(reinterpret_cast<const char*>(begin), end - begin);
  }
  if (image.empty()) {
    MESSAGE("SKIPPED: this kernel maps no vDSO");
    return;
  }
  const TemporaryFolder folder;
  std::ofstream(folder / "vdso", std::ios::binary) << image;
  const auto table = read_table(proc::MemorySource(std::move(image)));
  REQUIRE(table.has_value());
  CHECK(table->rows.size() > 10);
  check_file(folder / "vdso", 3);
}

}  // namespace spanfold::unwind::test
