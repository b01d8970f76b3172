// SPDX-License-Identifier: Apache-2.0
// Names of stripped Go programs: against the symbols of their unstripped twins, and tables of each format by hand.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "fixture.h"
#include "fuzz/elf_maker.h"
#include "fuzz/fuzz.h"
#include "named_file.h"
#include "proc/binary.h"
#include "proc/go_table.h"

namespace spanfold::proc {
namespace {

using test::have_program;
using test::lines_of;
using test::NamedFile;
using test::output_of;
using test::TemporaryFolder;
using test::write_text;

constexpr const char* kProgram = R"(package main

import (
	"fmt"
	"sort"
)

type shape interface{ area() float64 }
type square struct{ side float64 }

func (s *square) area() float64 { return s.side * s.side }

func total[T any](items []T, size func(T) float64) (sum float64) {
	for _, item := range items {
		sum += size(item)
	}
	return
}

func main() {
	shapes := []shape{&square{1}, &square{2}}
	sort.Slice(shapes, func(i, j int) bool { return shapes[i].area() > shapes[j].area() })
	fmt.Println(total(shapes, func(s shape) float64 { return s.area() }))
}
)";

struct Function {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::string name;
};

// "  401000  123 T main.main"
std::vector<Function> functions_of(const std::string& path) {
  std::vector<Function> functions;
  for (const std::string& line : lines_of("go tool nm -size -sort address " + path)) {
    std::istringstream words(line);
    std::string begin, bytes, type, name;
    words >> begin >> bytes >> type;
    std::getline(words >> std::ws, name);
    if (type != "T" && type != "t") continue;
    functions.push_back({std::stoull(begin, nullptr, 16), std::stoull(bytes), name});
  }
  return functions;
}

// What the linker writes into .symtab of a name in the line table: a calling convention behind it, a plain dot for the
// middle one; and type arguments, which the tables of Go 1.18 to 1.20 cut to "[...]".
bool is_same(std::string ours, std::string theirs) {
  for (const std::string_view suffix : {".abi0", ".abiinternal"}) {
    for (std::string* name : {&ours, &theirs}) {
      if (name->ends_with(suffix)) name->resize(name->size() - suffix.size());
    }
  }
  const std::string middle_dot = "·";
  for (std::size_t at = ours.find(middle_dot); at != std::string::npos; at = ours.find(middle_dot)) {
    ours.replace(at, middle_dot.size(), ".");
  }
  constexpr std::string_view kCut = "[...]";
  const std::size_t cut = ours.find(kCut);
  if (cut == std::string::npos) return ours == theirs;
  return theirs.starts_with(ours.substr(0, cut + 1)) && theirs.ends_with(ours.substr(ours.rfind(kCut) + 4));
}

// In each function and anywhere in the code. Between two functions lies padding, which the line table gives to the one
// before: so does Go's runtime, and no instruction runs there.
void check_twin(const std::string& stripped, const std::string& whole, std::size_t count = 10'000) {
  const NamedFile file(stripped);
  std::vector<Function> functions = functions_of(whole);
  std::erase_if(functions, [](const Function& each) { return each.bytes == 0; });
  REQUIRE(functions.size() > 1'000);
  std::mt19937_64 random(11);
  const auto check = [&](const Function& each, std::uint64_t address) {
    INFO(stripped, " ", std::hex, address, " ", each.name, " ", file.name(address));
    const bool inside = address - each.begin < each.bytes;
    const bool nothing = !inside && file.name(address).empty();
    REQUIRE((nothing || is_same(file.name(address), each.name)));
    return inside;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const Function& each = functions[random() % functions.size()];
    check(each, each.begin + random() % each.bytes);
  }
  const std::uint64_t begin = functions.front().begin;
  const std::uint64_t bytes = functions.back().begin + functions.back().bytes - begin;
  std::size_t named = 0;
  while (named < count) {
    const std::uint64_t address = begin + random() % bytes;
    const auto next = std::upper_bound(functions.begin(), functions.end(), address,
                                       [](std::uint64_t at, const Function& each) { return at < each.begin; });
    named += check(*std::prev(next), address) ? 1 : 0;
  }
}

// A table of two functions, main.one and main.two, eight and four bytes long.
struct Format {
  const char* magic = "0xfffffff1";
  bool has_text = true;       // a word for where the text begins
  const char* text = "text";  // what stands in it
  bool is_absolute = false;   // functions by address
  int pointer_bytes = 8;
  const char* section = ".gopclntab, \"a\"";
  const char* module = "";  // the assembly of a module, if any
};

std::string assembly_of(const Format& format) {
  const std::string word = format.pointer_bytes == 8 ? ".quad" : ".long";
  const std::string field = format.is_absolute ? word : ".long";
  const std::string from = format.is_absolute ? "" : " - text";
  return fmt::format(R"(
    .text
    .globl _start
_start: nop
text:
one: .skip 8, 0x90
two: .skip 4, 0x90
etext: nop
    .section .go.buildinfo, "aw"
    .quad 0
    .section {section}
    .balign 32
table: .long {magic}
    .byte 0, 0, 1, {pointer}
    {word} 2, 0 {text}
    {word} names - table, units - table, files - table, data - table, functions - table
names: .asciz "main.one"
    .asciz "main.two"
units: .long 0
files: .long 0
data: .long 0
    .balign 8
functions:
    {field} one{from}, f_one - functions, two{from}, f_two - functions, etext{from}
f_one: {field} one{from}
    .long 0
f_two: {field} two{from}
    .long 9
    {module}
    .section .note.GNU-stack, ""
)",
                     fmt::arg("section", format.section), fmt::arg("magic", format.magic),
                     fmt::arg("pointer", format.pointer_bytes), fmt::arg("word", word), fmt::arg("field", field),
                     fmt::arg("from", from), fmt::arg("text", format.has_text ? std::string(", ") + format.text : ""),
                     fmt::arg("module", format.module));
}

// The program, stripped; `one` is where its first function lies.
struct Program {
  Program(const Format& format, const std::string& linker) {
    write_text(folder / "a.s", assembly_of(format));
    const bool wide = format.pointer_bytes == 8;
    output_of(std::string("as ") + (wide ? "--64" : "--32") + " -o " + (folder / "a.o") + " " + (folder / "a.s"));
    output_of(std::string("ld -m ") + (wide ? "elf_x86_64 " : "elf_i386 ") + linker + " -o " + (folder / "a") + " " +
              (folder / "a.o") + " 2>&1");
    one = std::stoull(output_of("nm " + (folder / "a") + " | grep ' one$'"), nullptr, 16);
    output_of("strip " + (folder / "a"));
  }
  TemporaryFolder folder;
  std::uint64_t one = 0;
};

constexpr const char* kModule = R"(
    .section .go.module, "aw"
    .quad table
    .skip 19 * 8
    .quad one, etext, text, etext
)";

}  // namespace

TEST_CASE("Go: a stripped program has the names of its twin") {
  if (!have_program("go")) return;
  const TemporaryFolder folder;
  write_text(folder / "main.go", kProgram);
  write_text(folder / "go.mod", "module example.com/shapes\n\ngo 1.18\n");
  for (const std::string mode : {"exe", "pie"}) {
    const std::string build =
        "cd " + folder.path().string() + " && CGO_ENABLED=0 go build -buildvcs=false -buildmode=" + mode;
    output_of(build + " -o whole . 2>&1");
    output_of(build + " -ldflags='-s -w' -o stripped . 2>&1");
    CHECK(output_of("readelf -SW " + (folder / "stripped")).find(".symtab ") == std::string::npos);
    check_twin(folder / "stripped", folder / "whole");
    check_twin(folder / "whole", folder / "whole");
  }
}

TEST_CASE("Go: tables of each format, by hand") {
  if (!have_program("as")) return;
  const auto check = [](const Format& format, const std::string& linker) {
    const Program program(format, linker);
    const NamedFile file(program.folder / "a");
    CHECK(file.name(program.one - 1) == "");
    CHECK(file.name(program.one) == "main.one");
    CHECK(file.name(program.one + 7) == "main.one");
    CHECK(file.name(program.one + 8) == "main.two");
    CHECK(file.name(program.one + 11) == "main.two");
    CHECK(file.name(program.one + 12) == "");
  };
  SUBCASE("Go 1.16") { check({.magic = "0xfffffffa", .has_text = false, .is_absolute = true}, ""); }
  SUBCASE("Go 1.16, 32 bits") {
    check({.magic = "0xfffffffa", .has_text = false, .is_absolute = true, .pointer_bytes = 4}, "");
  }
  SUBCASE("Go 1.18") { check({.magic = "0xfffffff0"}, ""); }
  SUBCASE("Go 1.20") { check({}, ""); }
  SUBCASE("Go 1.20, 32 bits") { check({.pointer_bytes = 4}, ""); }
  SUBCASE("position-independent") { check({.section = ".data.rel.ro.gopclntab, \"aw\""}, "-pie"); }
  SUBCASE("position-independent, among other data") {
    check({.section = ".data.rel.ro, \"aw\"\n .quad 1, 0xfffffff1, 0x08010000fffffff1"}, "-pie");
  }
  SUBCASE("Go 1.26: the beginning of the text stands in the module") { check({.text = "0", .module = kModule}, ""); }
  SUBCASE("Go 1.26, position-independent") { check({.text = "0", .module = kModule}, "-pie"); }
}

TEST_CASE("Go: only Go's code is Go, and a table that lies names nothing") {
  if (!have_program("as")) return;
  const auto frame_of = [](const Program& program, std::uint64_t address) {
    static Interner interner;
    SymbolCache cache;
    const auto source = std::make_shared<MemorySource>(*read_file(program.folder / "a", 1 << 20));
    Binary binary(source, "a", "", interner, cache);
    const auto elf = ElfFile::read(*source);
    const CodeSegment& code = elf->code().front();
    return binary.frame_at(address - code.virtual_address + code.file_offset, true);
  };
  const Program program({}, "");
  CHECK(frame_of(program, program.one).type == FrameType::kGo);
  CHECK(*frame_of(program, program.one).function == "main.one");
  CHECK(frame_of(program, program.one - 1).type == FrameType::kNative);
  CHECK(frame_of(program, program.one + 12).type == FrameType::kNative);
  // The text begins nowhere, outside of what is executable, or is not what the module says.
  for (const Format& format : {Format{.text = "0"}, Format{.text = "0x123000000"}, Format{.magic = "0xfffffffb"},
                               Format{.text = "0",
                               .module = ".section .go.module, \"aw\"\n .quad table\n .skip 19 * 8\n"
                                         " .quad two, etext, text, etext\n"}}) {
    const Program other(format, "");
    CHECK(frame_of(other, other.one).function == nullptr);
    CHECK(frame_of(other, other.one).type == FrameType::kNative);
  }
}

TEST_CASE("Go: functions that are described far apart are read a bounded number of times") {
  constexpr std::uint32_t kCount = 1'000'000;
  constexpr std::uint32_t kDescribed = 16U << 20;
  std::string table;
  const auto add = [&](auto... values) { (table.append(reinterpret_cast<const char*>(&values), sizeof values), ...); };
  constexpr std::uint64_t kNames = 72;
  add(0xfffffff1U, std::uint16_t{0}, std::uint8_t{1}, std::uint8_t{8}, std::uint64_t{kCount}, std::uint64_t{0},
      fuzz::kCodeAddress, kNames, kNames + 8, kNames + 8, kNames + 8, kNames + 8);
  table += std::string(8, '\0');
  std::mt19937 random(5);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    add(i, static_cast<std::uint32_t>(8 * kCount + random() % kDescribed) & ~3U);
  }
  add(kCount);
  table.resize(table.size() + kDescribed);
  const std::string bytes = fuzz::make_elf({{.name = ".gopclntab", .bytes = table}});
  const fuzz::CountedSource source(bytes);
  const auto elf = ElfFile::read(source);
  const auto found = GoTable::find(*elf, source);
  REQUIRE(found.has_value());
  found->each_function(source, [](const GoTable::Function&) {});
  INFO(source.bytes_read(), " bytes read of ", bytes.size());
  CHECK(source.bytes_read() < 60 * bytes.size());
}

TEST_CASE("Go: random changes to a table never crash") {
  if (!have_program("as")) return;
  const Program program({.text = "0", .module = kModule}, "");
  const std::string honest = *read_file(program.folder / "a", 1 << 20);
  const MemorySource source(honest);
  const auto section = ElfFile::read(source)->section_named(".gopclntab");
  REQUIRE(section.has_value());
  std::mt19937 random(10);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = honest;
    for (unsigned i = 0; i < 1 + random() % 3; ++i) {
      constexpr unsigned char kEdges[] = {0, 1, 4, 8, 0x7f, 0x80, 0xff};
      const std::size_t at =
          random() % 4 == 0 ? random() % bytes.size() : section->sh_offset + random() % section->sh_size;
      bytes[at] = static_cast<char>(random() % 2 == 0 ? kEdges[random() % sizeof kEdges] : random());
    }
    const auto changed = std::make_shared<MemorySource>(std::move(bytes));
    const SymbolTable table = SymbolTable::read(changed);
    for (std::uint64_t address = program.one - 2; address < program.one + 14; ++address) {
      const std::size_t index = table.find(address);
      if (index != SymbolRanges::kNone) (void)table.name(index);
    }
  }
}

}  // namespace spanfold::proc
