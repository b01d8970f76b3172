// SPDX-License-Identifier: Apache-2.0
// /proc/kallsyms: made-up tables for each rule, and the kernel that runs.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <map>
#include <random>
#include <sstream>
#include <string>

#include "base/file.h"
#include "proc/kallsyms.h"
#include "proc/kernel.h"

namespace spanfold::proc {
namespace {

Kallsyms parse(std::string_view text, std::size_t piece_bytes = 4096) {
  Kallsyms symbols;
  for (std::size_t at = 0; at < text.size(); at += piece_bytes) symbols.feed(text.substr(at, piece_bytes));
  symbols.finish();
  return symbols;
}

constexpr std::string_view kText =
    "ffffffff81000000 T _stext\n"
    "ffffffff81000000 T _text\n"
    "ffffffff81000100 t local_one\n"
    "ffffffff81000100 W weak_one\n"
    "ffffffff81000200 T __x64_sys_read\n"
    "ffffffff81000200 T __ia32_sys_read\n"
    "ffffffff81000200 t a\n"
    "ffffffff810002f0 t __pfx_behind\n"
    "ffffffff81000300 t behind\n"
    "ffffffff81000380 D data_here\n"
    "ffffffff81000400 T last\n"
    "ffffffff81000500 T _etext\n"
    "ffffffff82000000 t booted\n"
    "ffffffff82100000 D table\n"
    "ffffffffc0201000 t mod_two\t[mod]\n"
    "ffffffffc0200800 t mod_one\t[mod]\n"
    "ffffffffc0203000 d mod_data\t[mod]\n"
    "ffffffffc0300010 t bpf_prog_0123456789abcdef_on_tick\t[bpf]\n"
    "ffffffffc0300100 t ftrace_trampoline\t[__builtin__ftrace]\n";

}  // namespace

TEST_CASE("kallsyms: a symbol in the last page of all ends behind its beginning") {
  const Kallsyms symbols = parse("ffffffff81000000 T first\nfffffffffffffff0 t last\t[bpf]\n");
  REQUIRE(symbols.modules().size() == 2);
  CHECK(symbols.modules()[1].end == ~0ULL);
  CHECK(symbols.find(0xfffffffffffffff8).name == "last");
}

TEST_CASE("kallsyms: names, aliases, ends, modules") {
  for (std::size_t piece = 1; piece < 100; piece += 7) {
    const Kallsyms symbols = parse(kText, piece);
    const auto name = [&](std::uint64_t address) { return symbols.find(address).name; };
    CHECK(name(0xffffffff80ffffff).empty());
    CHECK(name(0xffffffff81000000) == "_text");  // the shorter of equals
    CHECK(name(0xffffffff810000ff) == "_text");
    CHECK(name(0xffffffff81000150) == "weak_one");
    CHECK(name(0xffffffff81000200) == "__x64_sys_read");
    CHECK(name(0xffffffff810002ef) == "__x64_sys_read");
    CHECK(name(0xffffffff810002f8).empty());  // padding
    CHECK(name(0xffffffff8100037f) == "behind");
    CHECK(name(0xffffffff81000380).empty());  // data
    CHECK(name(0xffffffff810004ff) == "last");
    CHECK(name(0xffffffff81000500).empty());
    CHECK(name(0xffffffff82000000).empty());  // its memory is somebody else's by now
    CHECK(symbols.find(0xffffffff82000000).module == nullptr);
    CHECK(name(0xffffffffc0200fff) == "mod_one");
    CHECK(name(0xffffffffc0201000) == "mod_two");
    const auto in_module = symbols.find(0xffffffffc0201010);
    REQUIRE(in_module.module != nullptr);
    CHECK(in_module.module->name == "[mod]");
    CHECK(in_module.module_offset == 0x810);
    CHECK(name(0xffffffffc0300020) == "bpf_prog_0123456789abcdef_on_tick");
    CHECK(symbols.find(0xffffffffc0300020).module->name == "[bpf]");
    CHECK(symbols.find(0xffffffffc0300100).module->name == "[__builtin__ftrace]");
    CHECK(name(0xffffffffc0301000).empty());  // the last one ends with its page
    CHECK(!symbols.hidden());
  }
}

TEST_CASE("kallsyms: hidden addresses are recognised, nothing is named by them") {
  const Kallsyms symbols = parse("0000000000000000 T _stext\n0000000000000000 t foo\n0000000000000000 t bar\t[mod]\n");
  CHECK(symbols.hidden());
  CHECK(symbols.size() == 0);
  CHECK(symbols.find(0).module == nullptr);
  CHECK(!parse("").hidden());
}

TEST_CASE("kallsyms: random bytes never crash") {
  std::mt19937 random(4);
  for (int round = 0; round < 5'000; ++round) {
    std::string text(kText);
    for (int i = 0; i < 10; ++i) text[random() % text.size()] = static_cast<char>(random());
    const Kallsyms symbols = parse(text, 1 + random() % 300);
    for (int i = 0; i < 20; ++i) (void)symbols.find(0xffffffff81000000 + random() % 0x800);
  }
}

// /proc/kallsyms as it stands there: for each address all that begins there.
struct Line {
  std::string name;
  std::string module;
  bool is_code = false;
};
using Lines = std::map<std::uint64_t, std::vector<Line>>;

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string address, type;
    Line found;
    words >> address >> type >> found.name >> found.module;
    found.is_code = std::string_view("tTwW").find(type) != std::string_view::npos && !found.name.starts_with("__pfx_");
    lines[std::stoull(address, nullptr, 16)].push_back(found);
  }
  return lines;
}

// Who begins last before an address owns it, and code of the kernel has a name up to where its text ends.
void check_kernel_address(const Kallsyms& symbols, const Lines& lines, std::uint64_t address, std::uint64_t etext) {
  const Kallsyms::Found found = symbols.find(address);
  const auto next = lines.upper_bound(address);
  REQUIRE(next != lines.begin());
  const std::vector<Line>& owners = std::prev(next)->second;
  INFO(std::hex, address, " ", std::string(found.name), " ", owners.front().name);
  const bool listed = std::any_of(owners.begin(), owners.end(), [&](const Line& each) {
    return each.is_code && each.name == found.name &&
           (found.module == nullptr || found.module->name == (each.module.empty() ? "[kernel]" : each.module));
  });
  if (!found.name.empty()) REQUIRE(listed);
  const bool is_code = std::any_of(owners.begin(), owners.end(), [](const Line& each) { return each.is_code; });
  if (is_code && address < etext) REQUIRE(!found.name.empty());
}

TEST_CASE("kallsyms: the kernel that runs, against its own text") {
  const auto text = read_file("/proc/kallsyms", 256 << 20);
  if (!text) return;
  const Kallsyms symbols = parse(*text);
  if (symbols.hidden() || symbols.size() == 0) {
    MESSAGE("SKIPPED: /proc/kallsyms shows no addresses to this user");
    return;
  }
  CHECK(symbols.memory_bytes() < 5 << 20);
  const Lines lines = lines_of(*text);
  std::uint64_t etext = 0;
  std::vector<std::uint64_t> code;
  for (const auto& [address, owners] : lines) {
    for (const Line& each : owners) {
      if (each.name == "_etext" && each.module.empty()) etext = address;
      if (each.is_code) code.push_back(address);
    }
  }
  REQUIRE(etext != 0);
  std::mt19937_64 random(5);
  const auto& kernel = symbols.modules().front();
  std::size_t named = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t address = kernel.start + random() % (kernel.end - kernel.start);
    check_kernel_address(symbols, lines, address, etext);
    named += symbols.find(address).name.empty() ? 0 : 1;
  }
  CHECK(named > 10'000);
  // Modules, BPF programs and trampolines are few bytes of all: where each symbol begins, and behind that.
  for (const std::uint64_t begin : code) {
    check_kernel_address(symbols, lines, begin, etext);
    check_kernel_address(symbols, lines, begin + 3, etext);
    if (begin >= etext && lines.at(begin).front().module == "[bpf]") CHECK(!symbols.find(begin).name.empty());
  }
  MESSAGE("addresses: ", 20'000 + 2 * code.size());
}

TEST_CASE("kernel frames: offsets from the start of text, one mapping with ids") {
  const auto text = read_file("/proc/kallsyms", 256 << 20);
  if (!text || parse(*text).size() == 0) return;
  const Kallsyms symbols = parse(*text);
  Interner interner;
  Kernel kernel(interner, true);
  const auto& first = symbols.modules().front();
  const auto located = kernel.frame_at(first.start + 16);
  REQUIRE(located.frame.mapping != nullptr);
  CHECK(located.frame.mapping->filename == "[kernel]");
  CHECK(located.frame.address == 16);
  CHECK(located.frame.type == FrameType::kKernel);
  CHECK(*located.frame.function == located.symbol);
  CHECK(located.frame.mapping->memory_limit == first.end - first.start);
  if (!located.frame.mapping->build_id_gnu.empty()) CHECK(located.frame.mapping->htlhash.size() == 32);
  const auto nowhere = kernel.frame_at(0x1234);
  CHECK(nowhere.frame.mapping == nullptr);
  CHECK(nowhere.frame.address == 0x1234);
  Kernel nameless(interner, false);
  CHECK(nameless.frame_at(first.start + 16).frame.function == nullptr);
  CHECK(nameless.frame_at(first.start + 16).frame.mapping == located.frame.mapping);
}

}  // namespace spanfold::proc
