// SPDX-License-Identifier: Apache-2.0
// Demangling: what names read like, and that hostile ones cost bounded time, stack and length.
#include <doctest/doctest.h>
#include <fmt/format.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "fixture.h"
#include "proc/demangle.h"

namespace spanfold::proc {
namespace {

double seconds_of(const std::string& name) {
  const auto begin = std::chrono::steady_clock::now();
  CHECK(demangle(name).size() <= kMaxShownNameBytes);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string in_base(std::size_t value, std::string_view digits) {
  std::string text;
  for (; value > 0; value /= digits.size()) text.insert(text.begin(), digits[value % digits.size()]);
  return text;
}

// Generous: sanitizers and busy machines. What is not bounded takes minutes.
constexpr double kSoonSeconds = 2;

}  // namespace

TEST_CASE("demangle: C++ and Rust as people write them") {
  CHECK(demangle("_Z10parse_dateRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE") ==
        "parse_date(std::string const&)");
  CHECK(demangle("_Z10parse_dateRKSs") == "parse_date(std::string const&)");
  CHECK(demangle("_ZN12_GLOBAL__N_13fooEv") == "(anonymous namespace)::foo()");
  CHECK(demangle("_ZN3foo3barILi3EEEvv") == "void foo::bar<3>()");
  CHECK(demangle("_Z3fooi.cold") == "foo(int) [clone .cold]");
  CHECK(demangle("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE") == "core::fmt::Formatter::pad");
  CHECK(demangle("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE.llvm.1234") == "core::fmt::Formatter::pad");
  CHECK(demangle("_RNvC6_123foo3bar") == "123foo::bar");
  CHECK(demangle("_RNvCs1234_7mycrate3foo") == "mycrate::foo");
  CHECK(demangle("_ZNK3foo17hello_world_01234Ev") == "foo::hello_world_01234() const");  // no Rust hash
}

TEST_CASE("demangle: what is not mangled, or badly, stays as it is") {
  for (const char* name : {"main", "", "_Z", "_R", "_ZN", "_", "__libc_start_main", "_Zfoo", "_RX", "foo.part.0",
                           "_ZN17hE", "runtime.mallocgc", "main.(*server).handle", "\xff\xc0", "semi;colon fn"}) {
    CHECK(demangle(name) == name);
  }
  CHECK(demangle(std::string_view("_Z3foov\0x", 9)) == std::string_view("_Z3foov\0x", 9));
}

TEST_CASE("demangle: long names are cut with a marker") {
  const std::string plain(60'000, 'x');
  const std::string cut = demangle(plain);
  CHECK(cut.size() == kMaxShownNameBytes);
  CHECK(cut.ends_with("…"));
  std::string wide = "x";
  while (wide.size() < 5'000) wide += "ä";
  const std::string cut_wide = demangle(wide);
  CHECK(cut_wide.ends_with("ä…"));
  std::string pack = "_Z1fIJ";
  for (int i = 0; i < 900; ++i) pack += "Ss";
  pack += "EEvv";
  const std::string shown = demangle(pack);
  CHECK(shown.starts_with("void f<std::string, std::string"));
  CHECK(shown.ends_with("…"));
  std::string valid = "_Z1fI";
  while (valid.size() < 60'000) valid += "Ss";
  CHECK(demangle(valid + "Evv").ends_with("…"));
}

TEST_CASE("demangle: bombs of substitutions and backward references end soon") {
  // Each type doubles the one before.
  std::string doubling = "_Z1fSt4pairIiiE";
  for (std::size_t i = 0; i < 150; ++i) {
    const std::string digits = in_base(i, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    doubling += fmt::format("St4pairIS{0}_S{0}_E", digits.empty() ? "0" : digits);
  }
  CHECK(seconds_of(doubling) < kSoonSeconds);
  // Rust v0: tuples of references to tuples.
  std::string rust = "_RIC1a";
  std::size_t back = rust.size() - 2;
  rust += "TuuE";
  for (int i = 0; i < 40; ++i) {
    const std::size_t here = rust.size() - 2;
    const std::string digits = in_base(back - 1, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    rust += fmt::format("TB{0}_B{0}_B{0}_B{0}_E", digits);
    back = here;
  }
  CHECK(seconds_of(rust + "E") < kSoonSeconds);
  CHECK(demangle(rust + "E").starts_with("a::<((), ()), (((), ()), ("));
  CHECK(demangle(doubling).starts_with("f(std::pair<int, int>, std::pair<std::pair<int, int>, "));
}

TEST_CASE("demangle: deep nesting overflows no stack") {
  for (const char* piece : {"P",   "PF", "N",  "I",   "X",  "Xad", "XdtX", "F",     "DpT",  "St4pairI", "1aI", "J",
                            "L_Z", "Z",  "ZN", "U1x", "A_", "M1a", "Dv1_", "XsrT_", "TL0_", "cl",       "qu",  "_Z"}) {
    for (const std::size_t bytes : {1'000UL, kMaxMangledBytes - 8}) {
      std::string name = "_Z1f";
      while (name.size() < bytes) name += piece;
      CHECK(seconds_of(name) < kSoonSeconds);
      CHECK(seconds_of(name + "i") < kSoonSeconds);
      std::string closed = name + "i";
      while (closed.size() < kMaxMangledBytes) closed += 'E';
      CHECK(seconds_of(closed) < kSoonSeconds);
      CHECK(seconds_of("_R" + name.substr(4)) < kSoonSeconds);
    }
  }
}

TEST_CASE("demangle: random changes of real names") {
  const std::vector<std::string> seeds = {
      // NOLINTNEXTLINE(bugprone-suspicious-missing-comma): one name
      "_ZNSt8_Rb_treeINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt4pairIKS5_mESt10_Select1stIS8_ESt4lessIS5_"
      "ESaIS8_EE24_M_get_insert_unique_posERS7_",
      "_ZZN3foo3barIJidEEEDaDpT_ENKUlvE_clEv",
      "_RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3newCs15kBYyAo9fc_7mycrate",
      "_RINvNtC3std3mem8align_ofdE",
      "_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
      "_ZN4core3ptr85drop_in_place$LT$std..rt..lang_start$LT$$LP$$RP$$GT$17h0123456789abcdefE"};
  std::mt19937 random(8);
  constexpr std::string_view kLetters = "_ZRNSTIEJXLPFDpKv0123456789abcstuB$.";
  for (int round = 0; round < 100'000; ++round) {
    std::string name = seeds[random() % seeds.size()];
    for (unsigned i = 0; i < 1 + random() % 4; ++i) {
      const std::size_t at = 2 + random() % (name.size() - 2);
      switch (random() % 3) {
        case 0: name[at] = kLetters[random() % kLetters.size()]; break;
        case 1: name.insert(at, name.substr(random() % name.size(), random() % 20)); break;
        default: name.erase(at, 1);
      }
    }
    REQUIRE(demangle(name).size() <= kMaxShownNameBytes);
  }
}

TEST_CASE("demangle: equals nm on a real library") {
  if (!test::have_program("nm")) return;
  const std::string nm = "nm -D -p --defined-only --without-symbol-versions ";
  const std::string tail = test::library_of("libstdc") + " | cut -c 20- | sed '";
  const auto names = test::lines_of(nm + tail + "'");
  const auto truths = test::lines_of(
      nm + "-C " + tail +
      "s/std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >/std::string/g'");
  REQUIRE(names.size() == truths.size());
  CHECK(names.size() > 1'000);
  for (std::size_t i = 0; i < names.size(); ++i) REQUIRE(demangle(names[i]) == truths[i]);
}

// Last: from then on, names with letters in punycode stay as they are.
TEST_CASE("demangle: what cut names leave behind is bounded") {
  const auto long_name = [](char letter) {
    const std::string part = "u1900_" + std::string(1900, letter);
    return "_RNvC" + part + part;
  };
#ifdef __SANITIZE_ADDRESS__
  const __lsan::ScopedDisabler what_is_left_is_meant_to_be;
#endif
  CHECK(demangle(long_name('d')).ends_with("…"));
  CHECK(!demangle(long_name('d')).starts_with("_R"));
  int shown = 0;
  for (int i = 0; i < 1000; ++i) shown += demangle(long_name('d')).starts_with("_R") ? 0 : 1;
  CHECK(shown < 100);
  CHECK(demangle("_RNvC6_123foo3bar") == "123foo::bar");
}

}  // namespace spanfold::proc
