// SPDX-License-Identifier: Apache-2.0
// ELF files that lie: cut at every length, random bytes changed, and the classic traps one by one. Nothing may crash,
// take long, or give a name that is not in the file.
#include <doctest/doctest.h>
#include <elf.h>

#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/file.h"
#include "fixture.h"
#include "proc/binary.h"
#include "proc/elf_file.h"
#include "proc/symbol_table.h"

namespace spanfold::proc {
namespace {

// A static program of a few kilobytes, with symbols and a build id.
const std::string& small_file() {
  static const std::string kBytes = [] {
    const test::TemporaryFolder folder;
    std::string text = ".text\n";
    for (const char* name : {"_start", "one", "two", "three"}) {
      text += std::string(".globl ") + name + "\n.type " + name + ",@function\n" + name + ": nop\n nop\n.size " + name +
              ",2\n";
    }
    text += ".type local,@function\nlocal: nop\n nop\n.section .note.GNU-stack,\"\"\n";
    test::write_text(folder / "a.s", text);
    test::output_of("gcc -nostdlib -static -Wl,--build-id=sha1,-z,noseparate-code -o " + (folder / "a") + " " +
                    (folder / "a.s"));
    return *read_file(folder / "a", 1 << 20);
  }();
  return kBytes;
}

// Everything that is ever asked of a file, at every offset that could matter.
std::size_t read_all(const std::string& bytes) {
  Interner interner;
  SymbolCache cache;
  Binary binary(std::make_unique<MemorySource>(bytes), "hostile", "", interner, cache);
  std::size_t named = 0;
  for (std::uint64_t offset = 0; offset < bytes.size() + 16; offset += 7) {
    const Frame frame = binary.frame_at(offset, true);
    REQUIRE(frame.mapping != nullptr);
    if (frame.function != nullptr) ++named;
    (void)binary.function_beginning_at(offset);
  }
  return named;
}

template <typename Change>
std::string changed(Change change) {
  std::string bytes = small_file();
  auto* header = reinterpret_cast<Elf64_Ehdr*>(bytes.data());
  auto* sections = reinterpret_cast<Elf64_Shdr*>(bytes.data() + header->e_shoff);
  change(*header, sections);
  return bytes;
}

Elf64_Shdr& symbols_of(const Elf64_Ehdr& header, Elf64_Shdr* sections) {
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    if (sections[i].sh_type == SHT_SYMTAB) return sections[i];
  }
  FAIL("no .symtab");
  return sections[0];
}

double seconds_of(const std::string& bytes) {
  const auto begin = std::chrono::steady_clock::now();
  read_all(bytes);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

TEST_CASE("hostile ELF: the honest file first") {
  if (!test::have_program("gcc")) return;
  CHECK(read_all(small_file()) > 0);
}

TEST_CASE("hostile ELF: cut at every length") {
  if (!test::have_program("gcc")) return;
  for (std::size_t length = 0; length < small_file().size(); ++length) read_all(small_file().substr(0, length));
}

TEST_CASE("hostile ELF: sections, symbols and segments that lie") {
  if (!test::have_program("gcc")) return;
  constexpr double kSoonSeconds = 5;
  CHECK(read_all(changed([](auto& header, auto* sections) { symbols_of(header, sections).sh_entsize = 0; })) == 0);
  CHECK(read_all(changed([](auto& header, auto*) { header.e_shoff = 1ULL << 40; })) == 0);
  CHECK(read_all(changed([](auto& header, auto*) { header.e_shoff = ~0ULL - 8; })) == 0);
  CHECK(read_all(changed([](auto& header, auto*) { header.e_shentsize = 0; })) == 0);
  CHECK(read_all(changed([](auto& header, auto* sections) { symbols_of(header, sections).sh_link = 0xffffffff; })) ==
        0);
  CHECK(read_all(changed([](auto& header, auto* sections) { symbols_of(header, sections).sh_offset = ~0ULL; })) == 0);
  CHECK(seconds_of(changed([](auto& header, auto*) { header.e_phnum = 0xffff; })) < kSoonSeconds);
  CHECK(seconds_of(changed([](auto& header, auto*) { header.e_shnum = 0xffff; })) < kSoonSeconds);
  const auto many = changed([](auto& header, auto* sections) { symbols_of(header, sections).sh_size = 24ULL << 32; });
  CHECK(seconds_of(many) < kSoonSeconds);
  // The string table is the whole file, and not a string table, and nowhere.
  for (const int trap : {0, 1, 2}) {
    read_all(changed([&](auto& header, auto* sections) {
      Elf64_Shdr& strings = sections[symbols_of(header, sections).sh_link];
      if (trap == 0) strings.sh_offset = 0;
      if (trap == 1) strings.sh_type = SHT_PROGBITS;
      if (trap == 2) strings.sh_offset = ~0ULL;
      strings.sh_size = ~0ULL;
    }));
  }
}

TEST_CASE("hostile ELF: a sparse file that claims millions of symbols at one address") {
  if (!test::have_program("gcc")) return;
  std::string bytes = changed([](auto& header, auto* sections) {
    Elf64_Shdr& symbols = symbols_of(header, sections);
    symbols.sh_offset = 1 << 16;
    symbols.sh_size = 24ULL * 500'000;
  });
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(bytes.data());
  const std::uint64_t entry = header->e_entry;
  bytes.resize((1 << 16) + 24UL * 500'000);
  for (std::size_t i = 0; i < 500'000; ++i) {
    const Elf64_Sym symbol{.st_name = static_cast<Elf64_Word>(1 + i % 40),
                           .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                           .st_other = 0,
                           .st_shndx = 1,
                           .st_value = entry,
                           .st_size = 1 + i};
    std::memcpy(bytes.data() + (1 << 16) + i * sizeof symbol, &symbol, sizeof symbol);
  }
  const auto source = std::make_shared<MemorySource>(bytes);
  const auto begin = std::chrono::steady_clock::now();
  const SymbolTable table = SymbolTable::read(source);
  CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < 10);
  CHECK(table.find(entry) != SymbolRanges::kNone);
}

namespace {
// Counts what is read.
class CountedSource final : public ByteSource {
 public:
  explicit CountedSource(std::string bytes) : bytes_(std::move(bytes)) {}
  [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }
  [[nodiscard]] std::size_t read_some(std::uint64_t offset, std::span<char> into) const override {
    read_ += into.size();
    return bytes_.read_some(offset, into);
  }
  [[nodiscard]] std::uint64_t read() const { return read_; }

 private:
  MemorySource bytes_;
  mutable std::uint64_t read_ = 0;
};
}  // namespace

TEST_CASE("hostile ELF: tens of thousands of sections, each of the whole file, are read a few times") {
  if (!test::have_program("gcc")) return;
  constexpr std::uint64_t kSections = 0xfeff;
  for (const std::uint32_t type : {SHT_SYMTAB, SHT_DYNSYM, SHT_RELA}) {
    std::string bytes = small_file();
    const std::uint64_t strings_at = bytes.size();
    bytes.resize(bytes.size() + (1UL << 20));  // of names, and of symbols that are none
    auto* header = reinterpret_cast<Elf64_Ehdr*>(bytes.data());
    std::vector<Elf64_Shdr> sections(kSections);
    for (std::uint64_t i = 0; i < kSections; ++i) {
      sections[i] = {.sh_name = static_cast<Elf64_Word>(i * 16),
                     .sh_type = type,
                     .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                     .sh_offset = strings_at,
                     .sh_size = 1UL << 20,
                     .sh_entsize = 24};
    }
    sections[0].sh_type = SHT_STRTAB;
    const std::string plt(".plt\0", 5);
    bytes.replace(strings_at + 16, plt.size(), plt);
    header->e_shoff = bytes.size();
    header->e_shnum = static_cast<Elf64_Half>(kSections);
    header->e_shstrndx = 0;
    bytes.append(reinterpret_cast<const char*>(sections.data()), kSections * sizeof(Elf64_Shdr));
    const auto source = std::make_shared<CountedSource>(bytes);
    (void)SymbolTable::read(source);
    INFO("type ", type, ": ", source->read(), " bytes read of ", bytes.size());
    CHECK(source->read() < 40 * bytes.size());
  }
}

TEST_CASE("hostile ELF: a hundred thousand aliases whose names are far apart are read a bounded number of times") {
  if (!test::have_program("gcc")) return;
  constexpr std::uint64_t kStart = 1UL << 16;
  constexpr std::uint64_t kAliases = 100'000;
  constexpr std::uint64_t kStringBytes = 8UL << 20;
  std::string bytes = changed([&](auto& header, auto* sections) {
    Elf64_Shdr& symbols = symbols_of(header, sections);
    symbols.sh_offset = kStart;
    symbols.sh_size = kAliases * sizeof(Elf64_Sym);
    sections[symbols.sh_link].sh_offset = kStart + symbols.sh_size;
    sections[symbols.sh_link].sh_size = kStringBytes;
    auto* segments = reinterpret_cast<Elf64_Phdr*>(reinterpret_cast<char*>(&header) + header.e_phoff);
    for (unsigned i = 0; i < header.e_phnum; ++i) segments[i].p_memsz += 1UL << 20;
  });
  const std::uint64_t entry = reinterpret_cast<const Elf64_Ehdr*>(bytes.data())->e_entry;
  bytes.resize(kStart);
  std::mt19937 random(4);
  for (std::uint64_t i = 0; i < kAliases; ++i) {
    const Elf64_Sym symbol{.st_name = static_cast<Elf64_Word>(1 + random() % (kStringBytes - 100)),
                           .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                           .st_other = 0,
                           .st_shndx = 1,
                           .st_value = entry + i / 64,
                           .st_size = 1};
    bytes.append(reinterpret_cast<const char*>(&symbol), sizeof symbol);
  }
  while (bytes.size() < kStart + kAliases * sizeof(Elf64_Sym) + kStringBytes) bytes += static_cast<char>(random());
  const auto source = std::make_shared<CountedSource>(bytes);
  (void)SymbolTable::read(source);
  INFO(source->read(), " bytes read of ", bytes.size());
  // Half a million pages; with windows of 64 KiB and no bound, twelve thousand times as much as there is.
  CHECK(source->read() < 300 * bytes.size());
}

TEST_CASE("hostile ELF: a hundred thousand random changes") {
  if (!test::have_program("gcc")) return;
  std::mt19937 random(9);
  const std::string& honest = small_file();
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(honest.data());
  for (int round = 0; round < 100'000; ++round) {
    std::string bytes = honest;
    for (unsigned i = 0; i < 1 + random() % 4; ++i) {
      // Headers hold most of what matters.
      std::size_t at = random() % bytes.size();
      if (random() % 3 == 0) at = random() % (sizeof(Elf64_Ehdr) + header->e_phnum * sizeof(Elf64_Phdr));
      if (random() % 3 == 0) at = header->e_shoff + random() % (header->e_shnum * sizeof(Elf64_Shdr));
      constexpr unsigned char kEdges[] = {0, 1, 0x7f, 0x80, 0xff};
      bytes[at] = static_cast<char>(random() % 2 == 0 ? kEdges[random() % sizeof kEdges] : random());
    }
    Interner interner;
    SymbolCache cache;
    Binary binary(std::make_unique<MemorySource>(std::move(bytes)), "hostile", "", interner, cache);
    for (std::uint64_t offset = header->e_entry % 4096; offset < honest.size(); offset += 512) {
      (void)binary.frame_at(offset, true);
    }
  }
}

TEST_CASE("hostile ELF: a file that shrinks or grows while it is read") {
  if (!test::have_program("gcc")) return;
  const test::TemporaryFolder folder;
  const std::string path = folder / "file";
  test::write_text(path, small_file());
  auto fd = open_read(path);
  REQUIRE(fd);
  struct stat status {};
  REQUIRE(::fstat(fd->get(), &status) == 0);
  Interner interner;
  SymbolCache cache;
  Binary binary(std::make_unique<FileSource>(*std::move(fd), status), path, "", interner, cache);
  REQUIRE(::truncate(path.c_str(), 100) == 0);
  for (std::uint64_t offset = 0; offset < small_file().size(); ++offset) {
    CHECK(binary.frame_at(offset, true).function == nullptr);
  }
}

}  // namespace spanfold::proc
