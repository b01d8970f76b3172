// SPDX-License-Identifier: Apache-2.0
// Mangled names, and names of generated code. The demangler is not ours and not instrumented: a dictionary of what it
// knows stands in for what it would tell.
#include "proc/demangle.h"

#include "fuzz/fuzz.h"
#include "proc/jit_names.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spanfold;
  const std::string_view name(reinterpret_cast<const char*>(data), size);
  const std::string shown = proc::demangle(name);
  fuzz::check(shown.size() <= proc::kMaxShownNameBytes, "a shown name is bounded");
  fuzz::check(shown.empty() == name.empty(), "a name stays a name");
  const bool mangled = name.starts_with("_Z") || name.starts_with("_R");
  fuzz::check(mangled || size > proc::kMaxShownNameBytes || shown == name, "what is not mangled stays as it is");
  // But for those that leave memory behind, which is allowed a number of times only.
  const bool may_leave = name.starts_with("_R") && fuzz::contains(name, "u");
  fuzz::check(may_leave || proc::demangle(name) == shown, "the same name reads the same again");
  const std::string jit = proc::shown_name(name);
  fuzz::check(jit.size() <= proc::kMaxShownNameBytes && jit.empty() == name.empty(), "so is one of generated code");
  (void)proc::type_by_mapping(name);
  (void)proc::type_by_name(name, FrameType::kNative);
  return 0;
}
