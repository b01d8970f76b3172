// SPDX-License-Identifier: Apache-2.0
// Whose code a name is of, and how it is shown.
#include <doctest/doctest.h>

#include <string>

#include "proc/demangle.h"
#include "proc/jit_names.h"

namespace spanfold::proc {

TEST_CASE("jit names: one function is one name, whatever compiled it") {
  for (const char* mark : {"JS:*", "JS:~", "JS:^", "JS:+", "JS:", "LazyCompile:*", "LazyCompile:~", "Function:~"}) {
    CHECK(shown_name(mark + std::string("work /app/a.js:3:7")) == "work /app/a.js:3:7");
  }
  CHECK(shown_name("JS:**star /app/a.js:3:7") == "*star /app/a.js:3:7");
  CHECK(shown_name("JS:~ node:path:1208:10") == "node:path:1208:10");
  CHECK(shown_name("Script:~ /app/a.js:1:1") == "/app/a.js:1:1");
  CHECK(shown_name("py::work:/app/a.py") == "work:/app/a.py");
}

TEST_CASE("jit names: all else as it is") {
  for (const char* name : {"Builtin:ArrayMap", "BytecodeHandler:LdaZero", "RegExp:^a*$", "long Hot.hotInner(int)",
                           "I2C/C2I adapters", "void [App] Shop.Cart::Sum(int32)[Tier0]", "JS:", "JS:*", "py::", "x"}) {
    CHECK(shown_name(name) == name);
  }
  CHECK(shown_name("_Z4workv") == "work()");
  CHECK(shown_name("JS:*" + std::string(100'000, 'x')).size() <= kMaxShownNameBytes);
}

TEST_CASE("jit names: types by name, else by what the process maps") {
  CHECK(type_by_name("py::work:/app/a.py", FrameType::kNative) == FrameType::kCpython);
  CHECK(type_by_name("JS:*work /app/a.js:3:7", FrameType::kNative) == FrameType::kV8js);
  CHECK(type_by_name("Builtin:ArrayMap", FrameType::kNative) == FrameType::kV8js);
  CHECK(type_by_name("long Hot.hotInner(int)", FrameType::kJvm) == FrameType::kJvm);
  CHECK(type_by_name("anything", FrameType::kNative) == FrameType::kNative);
  CHECK(type_by_mapping("/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so") == FrameType::kJvm);
  CHECK(type_by_mapping("/opt/dotnet/shared/Microsoft.NETCore.App/8.0.1/libcoreclr.so") == FrameType::kDotnet);
  CHECK(type_by_mapping("/usr/bin/node") == FrameType::kV8js);
  CHECK(type_by_mapping("/usr/bin/node (deleted)") == FrameType::kV8js);
  CHECK(type_by_mapping("/usr/lib/libnode.so.108") == FrameType::kV8js);
  for (const char* name : {"/usr/bin/nodemon", "/usr/lib/libjvm.so.old", "", "[vdso]", "/node/app"}) {
    CHECK(type_by_mapping(name) == FrameType::kNative);
  }
}

}  // namespace spanfold::proc
