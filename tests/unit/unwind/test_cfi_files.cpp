// SPDX-License-Identifier: Apache-2.0
// Tables of real files, row by row: against a naive reader of the same call-frame information, and against libdw.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "compare.h"
#include "proc/byte_source.h"
#include "unwind/cfi.h"
#include "world.h"

namespace spanfold::unwind::test {
namespace {

// Compilers and languages of many kinds; hand-written assembler in libcrypto, libgcrypt, libgmp, libc and libjvm.
std::vector<std::string> files_of_this_machine() {
  std::vector<std::string> found;
  const std::string libraries = "/usr/lib/x86_64-linux-gnu/";
  for (const char* name : {"libc.so.6",          "ld-linux-x86-64.so.2",
                           "libm.so.6",          "libstdc++.so.6",
                           "libgcc_s.so.1",      "libcrypto.so.3",
                           "libssl.so.3",        "libgcrypt.so.20",
                           "libgmp.so.10",       "libLLVM-14.so.1",
                           "libclang-cpp.so.14", "libglib-2.0.so.0",
                           "libsqlite3.so.0",    "libz.so.1",
                           "liblzma.so.5",       "libzstd.so.1",
                           "libcurl.so.4",       "libdw.so.1",
                           "libelf.so.1",        "libbpf.so.1",
                           "libffi.so.8",        "libnettle.so.8",
                           "libgnutls.so.30",    "libpython3.11.so.1.0",
                           "libuv.so.1",         "libtinfo.so.6"}) {
    found.push_back(libraries + name);
  }
  for (const char* path : {"/usr/bin/bash", "/usr/bin/git", "/usr/bin/python3.11", "/usr/bin/perl", "/usr/bin/node",
                           "/usr/bin/redis-server", "/usr/sbin/nginx", "/usr/bin/qemu-system-x86_64",
                           "/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus", "/usr/bin/gdb",
                           "/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so", "/usr/bin/busybox",
                           "/usr/bin/openssl", "/usr/bin/perf"}) {
    found.emplace_back(path);
  }
  std::erase_if(found, [](const std::string& path) { return !std::filesystem::is_regular_file(path); });
  return found;
}

std::optional<Table> table_of(const std::string& path) {
  auto fd = open_read(path);
  struct stat status {};
  if (!fd || ::fstat(fd->get(), &status) != 0) return {};
  return read_table(proc::FileSource(*std::move(fd), status));
}

// Of larger files every 16th function is compared, of a tenth of that where libdw is asked, which takes longer.
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kLargeRows = 20'000;
#else
constexpr std::size_t kLargeRows = 300'000;
#endif

void check_table(const Table& table) {
  REQUIRE(!table.rows.empty());
  CHECK(table.rules[0] == Rule{});
  CHECK(table.rules[table.rows.back().rule].cfa == Cfa::kNone);
  for (std::size_t i = 1; i < table.rows.size(); ++i) {
    REQUIRE(table.rows[i - 1].start < table.rows[i].start);
    REQUIRE(table.rows[i - 1].rule != table.rows[i].rule);
  }
  std::vector<Rule> rules = table.rules;
  std::sort(rules.begin(), rules.end());
  CHECK(std::adjacent_find(rules.begin(), rules.end()) == rules.end());
  CHECK(table.left_out == 0);
}

}  // namespace

// All rows of all files take minutes with sanitizers: SPANFOLD_ALL_ROWS asks for them, and tells of each file.
TEST_CASE("tables of real files say what a naive reader says, at every row") {
  Tally all;
  std::size_t files = 0;
  const bool is_told = std::getenv("SPANFOLD_ALL_ROWS") != nullptr;
  for (const std::string& path : files_of_this_machine()) {
    CAPTURE(path);
    const auto table = table_of(path);
    const TrueFile file(path);
    if (!file.good()) continue;
    REQUIRE(table.has_value());
    check_table(*table);
    const Tally tally = compare_with_naive(*table, file, table->rows.size() > kLargeRows && !is_told ? 16 : 1);
    if (is_told) {
      MESSAGE(path, ": ", table->rows.size(), " rows, ", table->rules.size(), " rules, ", tally.functions,
              " functions, ", tally.comparisons, " comparisons, unsupported ", tally.unsupported, ", half ",
              tally.half_known);
    }
    all.add(tally);
    ++files;
  }
  MESSAGE(files, " files, ", all.rows, " rows, ", all.comparisons, " comparisons; unsupported ", all.unsupported,
          ", without frame pointer ", all.half_known);
  CHECK(files > 2);
  CHECK(all.unsupported < all.comparisons / 1000);
}

TEST_CASE("tables of real files say what libdw says") {
  const bool is_whole = std::getenv("SPANFOLD_ALL_ROWS") != nullptr;
  Tally all;
  std::size_t files = 0;
  for (const std::string& path : files_of_this_machine()) {
    CAPTURE(path);
    const auto table = table_of(path);
    const TrueFile file(path);
    if (!file.good()) continue;
    REQUIRE(table.has_value());
    all.add(compare_with_libdw(*table, file, table->rows.size() > kLargeRows / 10 && !is_whole ? 16 : 1));
    ++files;
  }
  MESSAGE(files, " files, ", all.rows, " rows of libdw, ", all.comparisons, " comparisons; unsupported ",
          all.unsupported, ", without frame pointer ", all.half_known, "; libdw gives up on ", all.unknown_to_libdw,
          " rows");
  CHECK(files > 2);
  CHECK(all.unknown_to_libdw < all.rows / 1000);
}

}  // namespace spanfold::unwind::test
