// SPDX-License-Identifier: Apache-2.0
// Names of random addresses in real binaries, against readelf, addr2line and c++filt.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "fixture.h"
#include "named_file.h"
#include "proc/demangle.h"
#include "proc/elf_file.h"

namespace spanfold::proc {
namespace {

using test::have_program;
using test::lines_of;
using test::NamedFile;
using test::output_of;
using test::TemporaryFolder;
using test::write_text;

// What readelf shows of one function.
struct Symbol {
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
  std::string name;
};

std::vector<Symbol> functions_of(const std::string& path, const std::string& table) {
  std::vector<Symbol> symbols;
  for (const std::string& line : lines_of(fmt::format("readelf -W {} {}", table, path))) {
    std::istringstream words(line);
    std::string number, value, size, type, binding, visibility, section, name;
    if (!(words >> number >> value >> size >> type >> binding >> visibility >> section >> name)) continue;
    const bool code = type == "FUNC" || type == "IFUNC" || type == "NOTYPE";
    if (!code || section == "UND" || section == "ABS" || number == "Num:") continue;
    name = name.substr(0, name.find('@'));
    symbols.push_back({std::stoull(value, nullptr, 16), std::stoull(size, nullptr, 0), name});
  }
  return symbols;
}

std::vector<std::uint64_t> random_addresses(const ElfFile& elf, std::size_t count) {
  std::mt19937_64 random(7);
  std::vector<std::uint64_t> addresses;
  for (std::size_t i = 0; i < count; ++i) {
    const CodeSegment& segment = elf.code()[i % elf.code().size()];
    addresses.push_back(segment.virtual_address + random() % segment.memory_bytes);
  }
  return addresses;
}

// Each name that we give belongs to a symbol that covers the address, and no sized symbol begins between; each address
// that a sized function covers has a name.
void check_with_readelf(const NamedFile& binary, const std::string& path, const std::vector<std::uint64_t>& addresses) {
  const bool stripped = output_of("readelf -SW " + path).find(" .symtab ") == std::string::npos;
  const std::vector<Symbol> symbols = functions_of(path, stripped ? "--dyn-syms" : "-s");
  std::map<std::uint64_t, std::vector<Symbol>> by_start;
  std::uint64_t longest = 0;
  for (const Symbol& symbol : symbols) {
    by_start[symbol.start].push_back(symbol);
    longest = std::max(longest, symbol.bytes);
  }
  std::size_t named = 0;
  for (const std::uint64_t address : addresses) {
    const std::string name = binary.name(address);
    std::uint64_t nearest = 0;
    for (auto at = by_start.upper_bound(address); at != by_start.begin() && nearest == 0;) {
      --at;
      if (address - at->first >= longest) break;
      const auto covers = [&](const Symbol& symbol) { return address - symbol.start < symbol.bytes; };
      if (std::any_of(at->second.begin(), at->second.end(), covers)) nearest = at->first;
    }
    INFO(path, " ", std::hex, address, " ", name);
    if (nearest != 0) REQUIRE(!name.empty());
    if (name.empty()) continue;
    ++named;
    if (name.ends_with("@plt")) {
      REQUIRE(nearest == 0);
      continue;
    }
    const auto& begins = nearest != 0 ? by_start[nearest] : std::prev(by_start.upper_bound(address))->second;
    const bool listed = std::any_of(begins.begin(), begins.end(), [&](const Symbol& each) {
      return each.name == name && (nearest == 0 ? each.bytes == 0 : address - each.start < each.bytes);
    });
    REQUIRE(listed);
  }
  CHECK(named > addresses.size() / 8);
}

// addr2line may prefer another alias of the same function; it knows .symtab only, and says "??" for a stripped file.
void check_with_addr2line(const NamedFile& binary, const std::string& path,
                          const std::vector<std::uint64_t>& addresses) {
  const TemporaryFolder folder;
  // Debug information, here or in a file of its own, would make it answer with inlined functions and other aliases.
  output_of("objcopy --strip-debug -R .gnu_debuglink -R .note.gnu.build-id " + path + " " + (folder / "plain") +
            " 2>/dev/null");
  std::ostringstream list;
  for (const std::uint64_t address : addresses) list << std::hex << address << '\n';
  write_text(folder / "addresses", list.str());
  const auto lines = lines_of("addr2line -f -e " + (folder / "plain") + " < " + (folder / "addresses"));
  REQUIRE(lines.size() == 2 * addresses.size());
  std::map<std::string, std::set<std::uint64_t>> starts;
  for (const char* table : {"-s", "--dyn-syms"}) {
    for (const Symbol& symbol : functions_of(path, table)) starts[symbol.name].insert(symbol.start);
  }
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const std::string name = binary.name(addresses[i]);
    const std::string truth = lines[2 * i].substr(0, lines[2 * i].find('@'));
    if (name.empty() || name.ends_with("@plt") || truth == "??") continue;
    INFO(path, " ", std::hex, addresses[i], " ", name, " ", truth);
    const auto& ours = starts[name];
    const auto& theirs = starts[truth];
    REQUIRE(std::any_of(ours.begin(), ours.end(), [&](std::uint64_t start) { return theirs.count(start) != 0; }));
  }
}

void check_binary(const std::string& path, std::size_t count = 10'000) {
  INFO(path);
  const NamedFile binary(path);
  REQUIRE(binary.table().size() > 0);
  CHECK(binary.table().memory_bytes() <= binary.table().size() * 16);
  const auto addresses = random_addresses(binary.elf(), count);
  check_with_readelf(binary, path, addresses);
  check_with_addr2line(binary, path, addresses);
}

constexpr const char* kC = R"(
#include <math.h>
static __attribute__((noinline)) int alpha(int v) { asm volatile(""); return v * 3; }
__attribute__((noinline)) int beta(int v) { asm volatile(""); return alpha(v) + 1; }
__attribute__((noinline, weak)) int gamma_weak(int v) { asm volatile(""); return beta(v) - 1; }
int delta(int) __attribute__((alias("beta")));
int main(int argc, char** argv) { (void)argv; return gamma_weak(argc) + delta(argc); }
)";

}  // namespace

TEST_CASE("names equal those of binutils: the test binary, libc, libstdc++") {
  if (!have_program("addr2line") || !have_program("readelf")) return;
  check_binary(std::filesystem::canonical("/proc/self/exe"));
  for (const char* name : {"libc\\.so", "libstdc\\+\\+"}) {
    const std::string path = test::library_of(name);
    REQUIRE(!path.empty());
    check_binary(path);
  }
}

// addr2line names unsized labels inside sized functions of assembly, of which there are many in OpenSSL; by our rule
// the function is right. And it takes half a minute.
TEST_CASE("names equal those of readelf: node") {
  if (!have_program("node") || !have_program("readelf")) return;
  const std::string path = lines_of("node -p process.execPath").front();
  const NamedFile binary(path);
  REQUIRE(binary.table().size() > 10'000);
  check_with_readelf(binary, path, random_addresses(binary.elf(), 10'000));
}

TEST_CASE("names equal those of binutils: whatever the linker makes of offsets") {
  if (!have_program("gcc") || !have_program("addr2line")) return;
  const TemporaryFolder folder;
  write_text(folder / "a.c", kC);
  std::vector<std::string> flags = {"-pie", "-no-pie", "-no-pie -static", "-Wl,-z,noseparate-code",
                                    "-Wl,-z,max-page-size=0x200000"};
  if (have_program("ld.lld")) {
    flags.insert(flags.end(),
                 {"-fuse-ld=lld -pie -fPIE", "-fuse-ld=lld -no-pie", "-fuse-ld=lld -Wl,-z,noseparate-code"});
  }
  for (const std::string& each : flags) {
    output_of("gcc -O1 -w -o " + (folder / "a") + " " + (folder / "a.c") + " " + each);
    check_binary(folder / "a", 2'000);
    const NamedFile binary(folder / "a");
    const std::uint64_t beta = std::stoull(output_of("nm " + (folder / "a") + " | grep ' beta$'"), nullptr, 16);
    CHECK(binary.name(beta) == "beta");  // global, before its alias delta by byte order
  }
}

TEST_CASE("names equal those of binutils: Rust") {
  if (!have_program("rustc")) return;
  const TemporaryFolder folder;
  write_text(folder / "a.rs",
             "use std::collections::HashMap;\n#[inline(never)] fn work(m: &mut HashMap<String, u64>, k: u64) {"
             " *m.entry(k.to_string()).or_insert(0) += k; }\n"
             "fn main() { let mut m = HashMap::new(); for i in 0..9 { work(&mut m, i); } println!(\"{:?}\", m); }\n");
  for (const char* version : {"", " -C symbol-mangling-version=v0"}) {
    output_of("rustc -O -C strip=debuginfo -o " + (folder / "a") + " " + (folder / "a.rs") + version + " 2>&1");
    check_binary(folder / "a");
    const NamedFile binary(folder / "a");
    const std::uint64_t work =
        std::stoull(output_of("nm " + (folder / "a") + " | grep -E '4work|workXs'"), nullptr, 16);
    CHECK(demangle(binary.name(work)) == "a::work");
  }
}

TEST_CASE("assembly: unsized, untyped, local labels, past the end") {
  if (!have_program("gcc")) return;
  const TemporaryFolder folder;
  write_text(folder / "a.s", R"(
    .text
    .globl untyped
untyped:
    nop
label_inside:
    nop
    .globl sized
    .type sized, @function
    .size sized, 4
sized:
    nop
    nop
    .globl within
within:
    nop
    nop
    nop
    nop
    .globl untyped_sized
    .size untyped_sized, 2
untyped_sized:
    nop
    nop
    .skip 16
    .section .other, "ax"
    .globl _start
    .type _start, @function
_start:
    nop
    .section .note.GNU-stack, ""
)");
  output_of("gcc -nostdlib -static -o " + (folder / "a") + " " + (folder / "a.s"));
  const NamedFile binary(folder / "a");
  const auto at = [&](const std::string& symbol, std::uint64_t offset) {
    const std::string value = output_of("nm " + (folder / "a") + " | grep ' " + symbol + "$'");
    return binary.name(std::stoull(value, nullptr, 16) + offset);
  };
  CHECK(at("untyped", 0) == "untyped");
  CHECK(at("label_inside", 0) == "untyped");
  CHECK(at("sized", 0) == "sized");
  CHECK(at("within", 0) == "sized");  // no size, inside one that has
  CHECK(at("sized", 4) == "");
  CHECK(at("untyped_sized", 1) == "untyped_sized");
  CHECK(at("untyped_sized", 2) == "");
  CHECK(at("_start", 0) == "_start");
  CHECK(at("_start", 1) == "");  // its section has ended
}

TEST_CASE("names longer than a window, and a string table that lies") {
  if (!have_program("gcc")) return;
  const TemporaryFolder folder;
  const std::string longest(10'000, 'n');
  write_text(folder / "a.s", ".globl _start\n.type _start,@function\n_start: nop\n.size _start,1\n.globl " + longest +
                                 "\n.type " + longest + ",@function\n" + longest + ": nop\n.size " + longest + ",1\n");
  output_of("gcc -nostdlib -static -o " + (folder / "a") + " " + (folder / "a.s"));
  const NamedFile binary(folder / "a");
  const std::uint64_t start = std::stoull(output_of("nm " + (folder / "a") + " | grep ' _start$'"), nullptr, 16);
  CHECK(binary.name(start) == "_start");
  CHECK(binary.name(start + 1) == longest);
}

}  // namespace spanfold::proc
