// SPDX-License-Identifier: Apache-2.0
#include "proc/jit_names.h"

#include <algorithm>
#include <array>

#include "proc/demangle.h"

namespace spanfold::proc {
namespace {

constexpr std::string_view kPython = "py::";

// V8's kinds of code (its LogEventListener); LazyCompile, Function and Script became JS with V8 10.
constexpr std::array<std::string_view, 5> kV8Functions = {"JS:", "LazyCompile:", "Function:", "Script:", "Eval:"};
constexpr std::array<std::string_view, 6> kV8Others = {
    "Builtin:", "BytecodeHandler:", "Handler:", "Stub:", "RegExp:", "Callback:"};
constexpr std::string_view kV8Marks = "*~^+-";

template <std::size_t Size>
std::string_view beginning_of(std::string_view name, const std::array<std::string_view, Size>& beginnings) {
  const auto found =
      std::find_if(beginnings.begin(), beginnings.end(), [&](auto beginning) { return name.starts_with(beginning); });
  return found == beginnings.end() ? std::string_view() : *found;
}

}  // namespace

FrameType type_by_mapping(std::string_view mapped_name) {
  const std::string_view base = mapped_name.substr(mapped_name.rfind('/') + 1);
  const auto is = [&](std::string_view file) {
    return base.starts_with(file) && (base.size() == file.size() || base[file.size()] == ' ');  // " (deleted)"
  };
  if (is("libjvm.so")) return FrameType::kJvm;
  if (is("libcoreclr.so")) return FrameType::kDotnet;
  return is("node") || base.starts_with("libnode.so.") ? FrameType::kV8js : FrameType::kNative;
}

FrameType type_by_name(std::string_view name, FrameType otherwise) {
  if (name.starts_with(kPython)) return FrameType::kCpython;
  const bool v8 = !beginning_of(name, kV8Functions).empty() || !beginning_of(name, kV8Others).empty();
  return v8 ? FrameType::kV8js : otherwise;
}

std::string shown_name(std::string_view name) {
  std::string_view shown = name;
  const std::string_view function = beginning_of(name, kV8Functions);
  if (name.starts_with(kPython)) shown.remove_prefix(kPython.size());
  if (!function.empty()) {
    shown.remove_prefix(function.size());
    if (!shown.empty() && kV8Marks.find(shown.front()) != std::string_view::npos) shown.remove_prefix(1);
    // A function without a name: what is left is its place.
    shown.remove_prefix(std::min(shown.find_first_not_of(' '), shown.size()));
  }
  return demangle(shown.empty() ? name : shown);
}

}  // namespace spanfold::proc
