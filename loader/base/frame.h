// SPDX-License-Identifier: Apache-2.0
// The words that rooms share about spans and frames: proc fills them, profile encodes them.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spanfold {

// Ids are bytes in the order of the W3C trace context header; all zeros: none.
using TraceId = std::array<std::uint8_t, 16>;
using SpanId = std::array<std::uint8_t, 8>;

struct SpanContext {
  TraceId trace_id{};
  SpanId span_id{};
  auto operator<=>(const SpanContext&) const = default;
  [[nodiscard]] bool valid() const { return *this != SpanContext{}; }
};

// `profile.frame.type` of the OpenTelemetry semantic conventions.
enum class FrameType : std::uint8_t { kNative, kKernel, kGo, kJvm, kCpython, kV8js, kDotnet, kAbortMarker };
[[nodiscard]] constexpr std::string_view frame_type_name(FrameType type) {
  constexpr std::array<std::string_view, 8> kNames = {"native",  "kernel", "go",     "jvm",
                                                      "cpython", "v8js",   "dotnet", "abort-marker"};
  return kNames[static_cast<std::size_t>(type)];
}

// A file (or the kernel, a module, the vDSO) as some processes map it. Addresses are those of the ELF file, so that
// processes share one Mapping: memory_start is the virtual address of the executable segment in the file.
struct Mapping {
  std::uint64_t memory_start = 0;  // bytes, ELF virtual address
  std::uint64_t memory_limit = 0;  // one past the last byte
  std::uint64_t file_offset = 0;   // bytes
  std::string filename;            // as in /proc/PID/maps, or "[kernel]", "[vdso]", "[module]", "[anon jit]"
  std::string build_id_gnu;        // hex; empty: the file has none
  std::string build_id_go;         // as the file says; empty: none
  std::string htlhash;             // hex of 16 bytes, OpenTelemetry's fallback id; empty: not to be had
  // Tells files apart that claim to be one, where that matters; no part of what is written. 0: it does not.
  std::uint64_t file = 0;
  auto operator<=>(const Mapping&) const = default;
};

// A place in source code. Pointers live as those of a Frame.
struct SourceLine {
  const std::string* function = nullptr;  // demangled; null: not named
  const std::string* file = nullptr;      // as the compiler was told; null: not known
  std::uint32_t line = 0;                 // 0: not known
};

// One frame. Pointers belong to whoever made the frame (proc's symbolizer) and live until it is told to forget.
struct Frame {
  const Mapping* mapping = nullptr;       // null: none (synthetic, or no file behind the address)
  const std::string* function = nullptr;  // demangled; null: not named
  // ELF virtual address, or a run-time address where mapping is null or that of no file. Callers carry their return
  // address minus one, so an address always lies in the instruction that was running or calling.
  std::uint64_t address = 0;
  FrameType type = FrameType::kNative;
  // Where in the source that is: innermost inlined function first, the function that was compiled last. Null: not
  // asked for, or not known. Never empty.
  const std::vector<SourceLine>* lines = nullptr;
};

}  // namespace spanfold
