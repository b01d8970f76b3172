// SPDX-License-Identifier: Apache-2.0
// Which files share a symbol table, which must not, and which table goes when room is needed.
#include <doctest/doctest.h>
#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/file.h"
#include "fixture.h"
#include "proc/binary.h"
#include "proc/recorded_source.h"
#include "proc/symbol_cache.h"

namespace spanfold::proc {
namespace {

using Source = std::shared_ptr<const MemorySource>;

// A program with `count` functions, "<prefix>0" and so on, all files with one build id.
std::string build(const std::string& prefix, int count = 50) {
  const test::TemporaryFolder folder;
  std::string text = ".text\n.globl _start\n_start: nop\n";
  for (int i = 0; i < count; ++i) {
    const std::string name = prefix + std::to_string(i);
    text += fmt::format(".globl {0}\n.type {0},@function\n{0}: nop\n.size {0},1\n", name);
  }
  test::write_text(folder / "a.s", text);
  test::output_of("gcc -nostdlib -static -Wl,--build-id=0x0123456789abcdef -o " + (folder / "a") + " " +
                  (folder / "a.s"));
  return *read_file(folder / "a", 1 << 20);
}

Source source_of(const std::string& bytes) { return std::make_shared<MemorySource>(bytes); }

std::string first_name(const SharedSymbols& symbols) { return symbols.table.name(1); }

// Stands for a file that is written over.
class ChangingSource final : public ByteSource {
 public:
  explicit ChangingSource(std::string bytes) : bytes_(std::move(bytes)) {}
  [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }
  [[nodiscard]] bool unchanged() const override { return unchanged_; }
  [[nodiscard]] std::size_t read_some(std::uint64_t offset, std::span<char> into) const override {
    return bytes_.read_some(offset, into);
  }
  void change() { unchanged_ = false; }

 private:
  MemorySource bytes_;
  bool unchanged_ = true;
};

}  // namespace

TEST_CASE("symbol cache: copies of one file share a table") {
  if (!test::have_program("gcc")) return;
  const std::string bytes = build("one_");
  SymbolCache cache;
  const auto first = cache.of("id", {source_of(bytes), nullptr});
  const std::size_t held = cache.memory_bytes();
  for (int i = 0; i < 20; ++i) CHECK(cache.of("id", {source_of(bytes), nullptr}) == first);
  CHECK(cache.tables_read() == 1);
  CHECK(cache.size() == 1);
  CHECK(cache.memory_bytes() == held);
  // The same file without its debug file, or with another, is not the same.
  CHECK(cache.of("id", {source_of(bytes), source_of(bytes)}) != first);
  CHECK(cache.of("id", {source_of(bytes), source_of(build("two_"))}) != first);
}

TEST_CASE("symbol cache: who claims the build id of another gets names of its own, and gives none") {
  if (!test::have_program("gcc")) return;
  const std::string honest = build("one_");
  SymbolCache cache;
  const auto ours = cache.of("id", {source_of(honest), nullptr});
  const auto other = cache.of("id", {source_of(build("two_")), nullptr});
  CHECK(first_name(*ours).starts_with("one_"));
  CHECK(first_name(*other).starts_with("two_"));
  // All but the names is the same, and they are read only when somebody asks.
  std::string forged = honest;
  for (std::size_t at = forged.find("one_"); at != std::string::npos; at = forged.find("one_", at)) {
    forged.replace(at, 4, "bad_");
  }
  const auto bad = cache.of("id", {source_of(forged), nullptr});
  CHECK(bad != ours);
  CHECK(first_name(*bad).starts_with("bad_"));
  CHECK(cache.of("id", {source_of(honest), nullptr}) == ours);
  CHECK(first_name(*ours).starts_with("one_"));
}

TEST_CASE("symbol cache: what was used longest ago goes, the newest never") {
  if (!test::have_program("gcc")) return;
  const std::vector<std::string> files = {build("one_"), build("two_"), build("three_")};
  SymbolCache measured;
  std::size_t largest = 0;
  for (const std::string& bytes : files) {
    const std::size_t before = measured.memory_bytes();
    (void)measured.of("id", {source_of(bytes), nullptr});
    largest = std::max(largest, measured.memory_bytes() - before);
  }
  SymbolCache cache(2 * largest);
  const std::weak_ptr<SharedSymbols> one = cache.of("1", {source_of(files[0]), nullptr});
  const std::weak_ptr<SharedSymbols> two = cache.of("2", {source_of(files[1]), nullptr});
  cache.note_use(*one.lock());
  const std::weak_ptr<SharedSymbols> three = cache.of("3", {source_of(files[2]), nullptr});
  CHECK(!one.expired());
  CHECK(two.expired());
  CHECK(!three.expired());
  CHECK(cache.memory_bytes() <= 2 * largest);
  const std::weak_ptr<SharedSymbols> one_again = cache.of("1", {source_of(files[0]), nullptr});
  CHECK(cache.size() == 2);
  cache.leave_room_for(largest);
  CHECK(cache.size() == 1);
  CHECK(!one_again.expired());
  SymbolCache tiny(1);
  const std::weak_ptr<SharedSymbols> only = tiny.of("1", {source_of(files[0]), nullptr});
  CHECK(!only.expired());
  (void)tiny.of("2", {source_of(files[1]), nullptr});
  CHECK(only.expired());
  CHECK(tiny.size() == 1);
}

TEST_CASE("symbol cache: what was written over, or is open nowhere else, is dropped") {
  if (!test::have_program("gcc")) return;
  const std::string bytes = build("one_");
  SymbolCache cache;
  auto changing = std::make_shared<ChangingSource>(bytes);
  const auto before = cache.of("id", {changing, nullptr});
  changing->change();
  CHECK(!before->table.unchanged());
  const auto copy = source_of(bytes);
  CHECK(cache.of("id", {copy, nullptr}) != before);
  CHECK(cache.size() == 1);
  CHECK(cache.open_files() == 0);
  cache.drop_unused();
  CHECK(cache.size() == 1);
  (void)cache.of("other", {source_of(build("two_")), nullptr});
  CHECK(cache.open_files() == 1);
  cache.drop_unused();
  CHECK(cache.size() == 1);
}

TEST_CASE("symbol cache: a binary whose table had to go keeps what it named, and reads again") {
  if (!test::have_program("gcc")) return;
  Interner interner;
  SymbolCache cache(1);
  Binary one(source_of(build("one_")), "one", "", interner, cache);
  Binary two(source_of(build("two_")), "two", "", interner, cache);
  const auto elf_source = source_of(build("one_"));
  const auto elf = ElfFile::read(*elf_source);
  const std::uint64_t offset = elf->code().back().file_offset + 1;
  const auto name_by = [&](Binary& binary) {
    // Reading waits a while, so that two that take turns do not spend all time on it.
    for (;;) {
      const Frame frame = binary.frame_at(offset, true);
      REQUIRE(frame.mapping != nullptr);
      if (frame.function != nullptr) return *frame.function;
    }
  };
  for (int turn = 0; turn < 3; ++turn) {
    CHECK(name_by(one) == "one_0");
    CHECK(name_by(two) == "two_0");
    CHECK(cache.size() == 1);
  }
  CHECK(cache.tables_read() == 6);
}

TEST_CASE("symbol cache: who writes into a copy takes no names from the others") {
  if (!test::have_program("gcc")) return;
  const std::string bytes = build("one_");
  Interner interner;
  SymbolCache cache;
  auto changing = std::make_shared<ChangingSource>(bytes);
  Binary theirs(changing, "theirs", "", interner, cache);
  Binary ours(source_of(bytes), "ours", "", interner, cache);
  const auto elf_source = source_of(bytes);
  const std::uint64_t offset = ElfFile::read(*elf_source)->code().back().file_offset;
  const auto name_of = [&](Binary& binary, int function) {
    const Frame frame = binary.frame_at(offset + 1 + static_cast<unsigned>(function), true);
    return frame.function == nullptr ? "" : *frame.function;
  };
  CHECK(name_of(theirs, 0) == "one_0");
  CHECK(name_of(ours, 1) == "one_1");
  CHECK(cache.tables_read() == 1);
  changing->change();
  CHECK(name_of(ours, 2) == "one_2");
  CHECK(name_of(theirs, 3).empty());
  CHECK(name_of(ours, 4) == "one_4");
  CHECK(cache.tables_read() == 2);
}

TEST_CASE("recorded source: like another wherever it was read, and nowhere else") {
  std::mt19937 random(12);
  std::uint64_t budget = ~0ULL;
  for (int round = 0; round < 2'000; ++round) {
    std::string bytes(1 + random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    RecordedSource source(source_of(bytes));
    std::vector<bool> seen(bytes.size());
    for (unsigned i = 0; i < random() % 8; ++i) {
      const std::size_t offset = random() % 320;
      std::string into(random() % 40, '\0');
      const bool include = random() % 4 == 0;
      const std::size_t got = offset < bytes.size() ? std::min(into.size(), bytes.size() - offset) : 0;
      if (include) source.include(offset, into.size());
      if (!include) REQUIRE(source.read_some(offset, into) == got);
      for (std::size_t at = offset; at < offset + got; ++at) seen[at] = true;
    }
    source.stop();
    char late = 0;
    (void)source.read_some(0, std::span(&late, 1));
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      std::string other = bytes;
      other[at] = static_cast<char>(other[at] + 1);
      REQUIRE(source.reads_like(MemorySource(other), budget) == !seen[at]);
    }
    CHECK(source.reads_like(MemorySource(bytes), budget));
    CHECK(!source.reads_like(MemorySource(bytes + "x"), budget));
  }
}

TEST_CASE("recorded source: who reads here and there, over and over, makes it hold no more than there is") {
  const RecordedSource source(source_of(std::string(1 << 20, 'x')));
  char byte = 0;
  std::mt19937 random(3);
  for (int i = 0; i < 500'000; ++i) (void)source.read_some(4096 * (random() % 256), std::span(&byte, 1));
  CHECK(source.memory_bytes() < 1 << 20);
}

TEST_CASE("recorded source: a comparison ends with its budget") {
  const std::string bytes(10 << 20, 'x');
  RecordedSource source(source_of(bytes));
  source.include(0, bytes.size());
  source.stop();
  std::uint64_t budget = bytes.size() + 5;
  CHECK(source.reads_like(MemorySource(bytes), budget));
  CHECK(budget == 5);
  CHECK(!source.reads_like(MemorySource(bytes), budget));
  CHECK(budget == 5);
}

namespace {
// Names that nobody wrote: as large as a file may say, and free.
class EndlessSource final : public ByteSource {
 public:
  explicit EndlessSource(std::string front) : front_(std::move(front)) {}
  [[nodiscard]] std::uint64_t size() const override { return 4ULL << 30; }
  [[nodiscard]] std::size_t read_some(std::uint64_t offset, std::span<char> into) const override {
    std::fill(into.begin(), into.end(), '\0');
    const std::size_t got = front_.read_some(offset, into);
    read_ += into.size();
    return std::max(got, into.size());
  }
  [[nodiscard]] std::uint64_t read() const { return read_; }

 private:
  MemorySource front_;
  mutable std::uint64_t read_ = 0;
};
}  // namespace

TEST_CASE("symbol cache: files that say gigabytes of names are not compared to their ends") {
  if (!test::have_program("gcc")) return;
  std::string bytes = build("one_");
  auto* header = reinterpret_cast<Elf64_Ehdr*>(bytes.data());
  auto* sections = reinterpret_cast<Elf64_Shdr*>(bytes.data() + header->e_shoff);
  for (unsigned i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type == SHT_SYMTAB) sections[sections[i].sh_link].sh_size = 0xf0000000;
  }
  SymbolCache cache;
  (void)cache.of("id", {std::make_shared<EndlessSource>(bytes), nullptr});
  for (int i = 0; i < 5; ++i) {
    const auto copy = std::make_shared<EndlessSource>(bytes);
    (void)cache.of("id", {copy, nullptr});
    CHECK(copy->read() < SymbolCache::kMostCompared + (16UL << 20));
  }
  CHECK(cache.tables_read() == 6);
}

}  // namespace spanfold::proc
