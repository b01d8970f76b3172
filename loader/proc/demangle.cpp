// SPDX-License-Identifier: Apache-2.0
#include "proc/demangle.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdint>
#include <cstring>

// Keeps libiberty from declaring basename() in a form that contradicts <cstring>.
#define HAVE_DECL_BASENAME 1
#include <libiberty/demangle.h>

namespace spanfold::proc {
namespace {

constexpr std::string_view kCut = "…";
// What the demanglers may print: more than is shown, because long standard names are shortened afterwards.
constexpr std::size_t kMaxPrintedBytes = 4 * kMaxShownNameBytes;

// The demanglers print through a callback that cannot say "enough": a few hundred bytes of backward references expand
// to gigabytes, and take as long even when nobody keeps them. Leaving by longjmp ends that. It skips frames of C code
// only, which hold nothing but stack, or the letters of one Rust identifier (see kMostLeft).
// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): setjmp fills one member, eight kilobytes need no zeros
struct Output {
  std::array<char, kMaxPrintedBytes> text;
  std::size_t length = 0;
  std::jmp_buf enough;
};

void take(const char* piece, std::size_t length, void* opaque) {
  if (length == 0) return;  // then `piece` may be null
  auto* output = static_cast<Output*>(opaque);
  const std::size_t room = output->text.size() - output->length;
  const std::size_t taken = length < room ? length : room;
  std::memcpy(output->text.data() + output->length, piece, taken);
  output->length += taken;
  if (output->length == output->text.size()) std::longjmp(output->enough, 1);  // NOLINT(cert-err52-cpp): see Output
}

enum class Language : std::uint8_t { kNone, kCpp, kRust };

// True where the name ends in Rust's legacy hash, "17h" + 16 hex digits + "E" (and perhaps LLVM's ".llvm.…").
bool has_rust_hash(std::string_view name) {
  name = name.substr(0, name.find(".llvm."));
  constexpr std::size_t kTail = 20;
  if (name.size() < kTail + 3 || !name.ends_with('E')) return false;
  const std::string_view tail = name.substr(name.size() - kTail, kTail - 1);
  return tail.starts_with("17h") && tail.substr(3).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Language language_of(std::string_view name) {
  if (name.starts_with("_R")) return Language::kRust;
  if (!name.starts_with("_Z")) return Language::kNone;
  return name.starts_with("_ZN") && has_rust_hash(name) ? Language::kRust : Language::kCpp;
}

// The letters of a Rust identifier in punycode lie in memory of the demangler's own, up to 16 KB, while it prints them:
// leaving then leaves them behind for ever. Whoever may name symbols must not make that happen over and over, so after
// these many times names that could do it again stay as they are.
constexpr int kMostLeft = 64;

bool may_hold_punycode(std::string_view name) {
  for (std::size_t at = name.find('u'); at != std::string_view::npos; at = name.find('u', at + 1)) {
    if (at + 1 < name.size() && name[at + 1] >= '0' && name[at + 1] <= '9') return true;
  }
  return false;
}

// No object with a destructor may live here: longjmp comes back into this frame.
bool print(const char* mangled, Language language, Output& output) {
  if (setjmp(output.enough) != 0) return true;  // NOLINT(cert-err52-cpp): see Output
  constexpr int kOptions = DMGL_PARAMS | DMGL_ANSI | DMGL_NO_RECURSE_LIMIT;
  if (language == Language::kRust) return rust_demangle_callback(mangled, DMGL_PARAMS | DMGL_ANSI, take, &output) != 0;
  return cplus_demangle_v3_callback(mangled, kOptions, take, &output) != 0;
}

// Ends the text in the marker where it is too long, or was cut before.
std::string cut(std::string text, bool was_cut = false) {
  if (text.size() <= kMaxShownNameBytes && !was_cut) return text;
  std::size_t end = std::min(text.size(), kMaxShownNameBytes - kCut.size());
  // Not through the middle of a UTF-8 sequence.
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  text.resize(end);
  text += kCut;
  return text;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

std::string demangle(std::string_view name) {
  const Language language = name.size() <= kMaxMangledBytes ? language_of(name) : Language::kNone;
  if (language == Language::kNone || name.find('\0') != std::string_view::npos) return cut(std::string(name));
  const std::string mangled(name);
  Output
      output;  // NOLINT(cppcoreguidelines-pro-type-member-init): setjmp fills `enough`, eight kilobytes need no zeros
  static int left = 0;
  const bool may_leave = name.starts_with("_R") && may_hold_punycode(name);
  if (may_leave && left >= kMostLeft) return cut(mangled);
  bool good = print(mangled.c_str(), language, output);
  if (may_leave && output.length == output.text.size()) ++left;
  if (!good && language == Language::kRust && name.starts_with("_Z")) {
    output.length = 0;
    good = print(mangled.c_str(), Language::kCpp, output);
  }
  if (!good || output.length == 0) return cut(mangled);
  std::string text(output.text.data(), output.length);
  replace_all(text, "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string");
  return cut(std::move(text), output.length == output.text.size());
}

}  // namespace spanfold::proc
