// SPDX-License-Identifier: Apache-2.0
// Symbols that a file carries packed (MiniDebugInfo): they name what was stripped; and streams that were not packed by
// friends.
#include <doctest/doctest.h>

#include <random>
#include <string>

#include "base/file.h"
#include "fixture.h"
#include "named_file.h"
#include "proc/unpack_xz.h"

namespace spanfold::proc {
namespace {

using test::have_program;
using test::NamedFile;
using test::output_of;
using test::TemporaryFolder;
using test::write_text;

constexpr const char* kLibrary = R"(
static __attribute__((noinline)) int hidden_one(int v) { asm volatile(""); return v * 3; }
static __attribute__((noinline)) int hidden_two(int v) { asm volatile(""); return hidden_one(v) + 1; }
__attribute__((noinline)) int shown(int v) { asm volatile(""); return hidden_two(v) - 1; }
)";

std::uint64_t address_of(const std::string& path, const std::string& symbol) {
  return std::stoull(output_of("nm " + path + " | grep ' " + symbol + "$'"), nullptr, 16);
}

// As find-debuginfo makes it: symbols only, and of these only functions that .dynsym does not have.
std::string with_debugdata(const TemporaryFolder& folder, const std::string& file, const std::string& pack) {
  const std::string inner = folder / "inner";
  output_of("objcopy --only-keep-debug " + file + " " + inner + ".debug && objcopy -S -K hidden_one -K hidden_two " +
            inner + ".debug " + inner + " && (" + pack + ") < " + inner + " > " + inner + ".xz && strip -o " + inner +
            ".out " + file + " && objcopy --add-section .gnu_debugdata=" + inner + ".xz " + inner + ".out");
  return inner + ".out";
}

std::string packed(const std::string& bytes, const std::string& how = "xz -c") {
  const TemporaryFolder folder;
  write_text(folder / "bytes", bytes);
  return output_of(how + " < " + (folder / "bytes"));
}

std::optional<std::string> unpacked(const std::string& bytes, const UnpackLimits& limits = {}) {
  return unpack_xz(MemorySource(bytes), 0, bytes.size(), limits);
}

std::string random_bytes(std::size_t count) {
  std::mt19937 random(2);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() % 16);
  return bytes;
}

}  // namespace

TEST_CASE("packed symbols name what was stripped, together with .dynsym") {
  if (!have_program("gcc") || !have_program("xz")) return;
  const TemporaryFolder folder;
  write_text(folder / "a.c", kLibrary);
  output_of("gcc -O1 -shared -fPIC -o " + (folder / "a.so") + " " + (folder / "a.c"));
  const NamedFile stripped(with_debugdata(folder, folder / "a.so", "xz -c"));
  for (const std::string symbol : {"hidden_one", "hidden_two", "shown"}) {
    CHECK(stripped.name(address_of(folder / "a.so", symbol)) == symbol);
  }
  // Names were copied, and little else.
  CHECK(stripped.table().memory_bytes() < stripped.table().size() * 12 + 100);
  for (const char* pack : {"xz -9e -c", "xz -0 --check=sha256 -c", "xz --check=crc32 --block-size=4096 -c"}) {
    const NamedFile other(with_debugdata(folder, folder / "a.so", pack));
    CHECK(other.name(address_of(folder / "a.so", "hidden_one")) == "hidden_one");
  }
}

TEST_CASE("packed symbols that are damaged, or of another file, name nothing") {
  if (!have_program("gcc") || !have_program("xz")) return;
  const TemporaryFolder folder;
  write_text(folder / "a.c", kLibrary);
  output_of("gcc -O1 -shared -fPIC -o " + (folder / "a.so") + " " + (folder / "a.c"));
  const std::uint64_t hidden = address_of(folder / "a.so", "hidden_one");
  const std::uint64_t shown = address_of(folder / "a.so", "shown");
  std::string pack;
  SUBCASE("cut") { pack = "xz -c | head -c 200"; }
  SUBCASE("empty") { pack = "head -c 0"; }
  SUBCASE("not packed") { pack = "cat"; }
  SUBCASE("another format") { pack = "xz --format=lzma -c"; }
  SUBCASE("no ELF file") { pack = "sha256sum | xz -c"; }
  SUBCASE("a bit is wrong") { pack = "xz -c | (head -c 150; printf '\\377'; tail -c +152)"; }
  SUBCASE("of another file") {
    output_of("gcc -O1 -shared -fPIC -o " + (folder / "b.so") + " " + (folder / "a.c") + " -lm -Wl,--no-as-needed " +
              "-Wl,--section-start=.text=0x9000");
    output_of("objcopy --only-keep-debug " + (folder / "b.so") + " " + (folder / "b.debug"));
    pack = "xz -c " + (folder / "b.debug");
  }
  const NamedFile file(with_debugdata(folder, folder / "a.so", pack));
  CHECK(file.name(hidden).empty());
  CHECK(file.name(shown) == "shown");
}

TEST_CASE("unpack: what is honest comes back") {
  if (!have_program("xz")) return;
  for (const std::size_t count : {0, 1, 65'535, 65'536, 65'537, 3'000'000}) {
    const std::string bytes = random_bytes(count);
    const auto back = unpacked(packed(bytes));
    REQUIRE(back.has_value());
    CHECK(*back == bytes);
  }
  // Little, but all the same: within the megabyte that is always allowed.
  CHECK(unpacked(packed(std::string(1'000'000, '\0'))).has_value());
}

TEST_CASE("unpack: bombs end at the limits") {
  if (!have_program("xz")) return;
  CHECK(!unpacked(packed(std::string(32UL << 20, '\0'))).has_value());  // gains 6,000
  const std::string bytes = random_bytes(2'000'000);
  CHECK(!unpacked(packed(bytes), {.most_bytes = 1'999'999}).has_value());
  CHECK(unpacked(packed(bytes), {.most_bytes = 2'000'000}).has_value());
  CHECK(!unpacked(packed(bytes), {.most_gain = 1, .always_bytes = 1000}).has_value());
  // A dictionary that nobody can hold: refused before it is allocated.
  CHECK(!unpacked(packed("text", "xz -c --lzma2=dict=1GiB")).has_value());
  CHECK(unpacked(packed("text", "xz -9 -c")).has_value());
}

TEST_CASE("unpack: cut anywhere, or changed at random, nothing crashes and nothing wrong comes out") {
  if (!have_program("xz")) return;
  const std::string bytes = random_bytes(5'000);
  const std::string honest = packed(bytes);
  for (std::size_t length = 0; length < honest.size(); length += 7) {
    REQUIRE(!unpacked(honest.substr(0, length)).has_value());
  }
  std::mt19937 random(5);
  for (int round = 0; round < 2'000; ++round) {
    std::string changed = honest;
    for (unsigned i = 0; i < 1 + random() % 3; ++i) changed[random() % changed.size()] = static_cast<char>(random());
    const auto back = unpacked(changed, {.decoder_memory = 16UL << 20});
    if (back) REQUIRE(*back == bytes);
  }
}

}  // namespace spanfold::proc
