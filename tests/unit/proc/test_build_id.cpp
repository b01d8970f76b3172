// SPDX-License-Identifier: Apache-2.0
// Digests against published vectors, notes of every shape, and what linkers really write.
#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <string>

#include "base/file.h"
#include "fixture.h"
#include "proc/build_id.h"
#include "proc/elf_file.h"
#include "proc/sha256.h"

namespace spanfold::proc {
namespace {

template <typename Digest>
std::string hex_of(const Digest& digest) {
  return to_hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::string note(std::string_view owner, std::uint32_t type, std::string_view value, std::size_t alignment) {
  const std::uint32_t words[] = {static_cast<std::uint32_t>(owner.size()), static_cast<std::uint32_t>(value.size()),
                                 type};
  std::string bytes(reinterpret_cast<const char*>(words), sizeof words);
  const auto pad = [&] { bytes.resize((bytes.size() + alignment - 1) / alignment * alignment); };
  bytes += owner;
  pad();
  bytes += value;
  pad();
  return bytes;
}

const std::string_view kGnu("GNU\0", 4);
const std::string_view kGo("Go\0\0", 4);

BuildIds collected(std::string_view notes, std::uint64_t alignment) {
  BuildIds ids;
  collect_notes(notes, alignment, ids);
  return ids;
}

BuildIds ids_of(const std::string& path) {
  const MemorySource source(*read_file(path, 64 << 20));
  const auto elf = ElfFile::read(source);
  REQUIRE(elf.has_value());
  return elf->build_ids();
}

}  // namespace

TEST_CASE("SHA-256: vectors of FIPS 180-4 and lengths around the block") {
  CHECK(hex_of(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex_of(sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hex_of(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hex_of(sha256(std::string(1'000'000, 'a'))) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  const test::TemporaryFolder folder;
  for (const std::size_t length : {55, 56, 57, 63, 64, 65, 119, 120, 8200}) {
    const std::string bytes(length, 'q');
    test::write_text(folder / "bytes", bytes);
    CHECK(hex_of(sha256(bytes)) == test::output_of("sha256sum < " + (folder / "bytes")).substr(0, 64));
  }
}

TEST_CASE("FNV-1a of 128 bits: vectors of its authors") {
  CHECK(hex_of(fnv1a_128("")) == "6c62272e07bb014262b821756295c58d");
  CHECK(hex_of(fnv1a_128("a")) == "d228cb696f1a8caf78912b704e4a8964");
}

TEST_CASE("htlhash: first and last 4096 bytes, which overlap in short files, and the length") {
  const test::TemporaryFolder folder;
  for (const std::size_t length : {1, 4095, 4096, 4097, 8191, 8192, 100'000}) {
    std::string bytes(length, '\0');
    for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<char>(i * 31 + i / 256);
    test::write_text(folder / "file", bytes);
    const std::string truth =
        test::output_of("cd " + (folder / ".") + " && (head -c 4096 file; tail -c 4096 file; printf '%016x' " +
                        std::to_string(length) + " | xxd -r -p) | sha256sum");
    CHECK(htlhash_of_file(MemorySource(bytes)) == truth.substr(0, 32));
  }
  CHECK(htlhash_of_file(MemorySource("")).empty());
  CHECK(htlhash_of_build_id("").empty());
  CHECK(htlhash_of_build_id("abcd").size() == 32);
}

TEST_CASE("notes: any length from 1 to 64, the first GNU id wins, others are passed over") {
  for (const std::uint64_t alignment : {4, 8}) {
    for (std::size_t length = 1; length <= 64; ++length) {
      const std::string value(length, '\x5a');
      const std::string notes = note(kGnu, 5, std::string(alignment == 8 ? 16 : 12, 'p'), alignment) +
                                note("stapsdt", 3, "not mine", alignment) + note(kGnu, 3, value, alignment) +
                                note(kGnu, 3, "second", alignment);
      CHECK(collected(notes, alignment).gnu == to_hex(value));
    }
  }
  CHECK(collected(note(kGnu, 3, std::string(65, 'x'), 4), 4).gnu.empty());
  CHECK(collected(note(kGnu, 3, "", 4), 4).gnu.empty());
  CHECK(collected(note("GNU", 3, "abcd", 4), 4).gnu.empty());
  CHECK(collected(note(kGnu, 1, "abcd", 4), 4).gnu.empty());
  const BuildIds both = collected(note(kGo, 4, "ab/cd", 4) + note(kGnu, 3, "\x01\x02", 4), 4);
  CHECK(both.go == "ab/cd");
  CHECK(both.gnu == "0102");
}

TEST_CASE("notes: cut anywhere or random, they never crash") {
  const std::string notes = note(kGnu, 5, "0123456789ab", 4) + note(kGnu, 3, "01234567890123456789", 4);
  for (std::size_t length = 0; length < notes.size(); ++length)
    CHECK(collected(notes.substr(0, length), 4).gnu.empty());
  std::mt19937 random(3);
  for (int round = 0; round < 50'000; ++round) {
    std::string bytes = notes;
    for (int i = 0; i < 4; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    (void)collected(bytes, round % 2 == 0 ? 4 : 8);
  }
}

TEST_CASE("build ids as linkers write them, also without section headers") {
  if (!test::have_program("gcc")) return;
  const test::TemporaryFolder folder;
  test::write_text(folder / "a.c", "int main(void) { return 0; }\n");
  const auto built = [&](const std::string& flags) {
    test::output_of("gcc -o " + (folder / "a") + " " + (folder / "a.c") + " " + flags);
    return folder / "a";
  };
  CHECK(ids_of(built("-Wl,--build-id=none")).gnu.empty());
  CHECK(ids_of(built("-Wl,--build-id=0xdeadbeef")).gnu == "deadbeef");
  CHECK(ids_of(built("-Wl,--build-id=md5")).gnu.size() == 32);
  const std::string sha1 = built("-Wl,--build-id=sha1 -fcf-protection");
  const std::string truth = test::output_of("readelf -n " + sha1 + " | sed -n 's/.*Build ID: //p'");
  CHECK(ids_of(sha1).gnu + "\n" == truth);
  const std::string long_id(64, 'c');
  CHECK(ids_of(built("-Wl,--build-id=0x" + long_id)).gnu == long_id);
  // e_shoff, e_shnum and e_shstrndx zeroed: only PT_NOTE is left.
  std::string bytes = *read_file(built("-Wl,--build-id=0xfeedface"), 1 << 20);
  std::memset(bytes.data() + 40, 0, 8);
  std::memset(bytes.data() + 60, 0, 4);
  test::write_text(folder / "stripped", bytes);
  CHECK(ids_of(folder / "stripped").gnu == "feedface");
  if (!test::have_program("ld.lld")) return;
  CHECK(ids_of(built("-fuse-ld=lld -Wl,--build-id=fast")).gnu.size() == 16);
}

}  // namespace spanfold::proc
