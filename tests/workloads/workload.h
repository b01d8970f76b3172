// SPDX-License-Identifier: Apache-2.0
// What the workloads share: the two functions that a context writer hooks, ids that say what they belong to, and
// ways to use a known amount of CPU. Each workload is one translation unit.
#pragma once

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

// Neither inlined nor cloned: a uprobe must see each call, with its arguments in place.
#if defined(__clang__)
#define WORKLOAD_KEEP gnu::noinline, gnu::used
#else
#define WORKLOAD_KEEP gnu::noipa, gnu::used
#endif

extern "C" {
// The calling thread enters a span: 16 and 8 bytes, in the order of the W3C header.
[[WORKLOAD_KEEP]] inline void span_begin(const std::uint8_t* trace_id, const std::uint8_t* span_id) {
  asm volatile("" ::"r"(trace_id), "r"(span_id) : "memory");
}
// The calling thread leaves the span that it entered last, and is back in the one around it, if any.
[[WORKLOAD_KEEP]] inline void span_end() { asm volatile("" ::: "memory"); }
}

namespace workload {

struct SpanIds {
  std::array<std::uint8_t, 16> trace_id{};
  std::array<std::uint8_t, 8> span_id{};
};

inline void begin(const SpanIds& ids) { span_begin(ids.trace_id.data(), ids.span_id.data()); }
inline void end() { span_end(); }

// A well mixed word from a counter (the finaliser of splitmix64 is a bijection, so no two counters share a word).
inline std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31U);
}

inline void store_big_endian(std::uint8_t* bytes, std::uint64_t value, unsigned size) {
  for (unsigned i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(value >> (8U * (size - 1U - i)));
}

// A span id that tells a test what ran: byte 0 the kind (1 and up), byte 1 the thread, six bytes a serial number.
// The trace id is random-looking and the same for the same seed and trace number; what tells traces apart comes first.
inline SpanIds make_ids(std::uint8_t kind, std::uint8_t thread, std::uint64_t serial, std::uint64_t seed,
                        std::uint64_t trace) {
  SpanIds ids;
  ids.span_id[0] = kind;
  ids.span_id[1] = thread;
  store_big_endian(ids.span_id.data() + 2, serial, 6);
  store_big_endian(ids.trace_id.data(), mix(mix(seed) ^ trace), 8);
  store_big_endian(ids.trace_id.data() + 8, mix(seed), 8);
  return ids;
}

template <std::size_t kSize>
std::string hex(const std::array<std::uint8_t, kSize>& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

inline std::uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}
inline std::uint64_t wall_ns() { return clock_ns(CLOCK_REALTIME); }
inline std::uint64_t steady_ns() { return clock_ns(CLOCK_MONOTONIC); }

// CPU time of the calling thread. A frame of its own, and the bare system call: libc keeps no frame pointer, so a walk
// from inside it skips its caller, which is then this function and not the one that a test looks for.
[[WORKLOAD_KEEP]] inline std::uint64_t thread_cpu_ns() {
  timespec now{};
  syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

inline void sleep_ns(std::uint64_t duration_ns) {
  timespec left{static_cast<time_t>(duration_ns / 1'000'000'000U), static_cast<long>(duration_ns % 1'000'000'000U)};
  while (nanosleep(&left, &left) != 0) {
  }
}

// About a nanosecond a turn, in the frame of whoever calls.
[[gnu::always_inline]] inline void spin(std::uint64_t turns) {
  std::uint64_t state = turns;
  for (std::uint64_t i = 0; i < turns; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    asm volatile("" : "+r"(state));
  }
}

// Uses at least this much CPU time in the frame of whoever calls, and returns what it was exactly. The clock is read
// rarely: nearly every sample falls into the loop.
[[gnu::always_inline]] inline std::uint64_t burn(std::uint64_t cpu_ns) {
  constexpr std::uint64_t kTurnsBetweenLooks = 20'000;
  const std::uint64_t start = thread_cpu_ns();
  std::uint64_t spent = 0;
  while (spent < cpu_ns) {
    spin(kTurnsBetweenLooks);
    spent = thread_cpu_ns() - start;
  }
  return spent;
}

// `--name value` pairs. A word that does not belong ends the program: a misspelt option must not pass a test.
class Options {
 public:
  Options(int count, char** words) : count_(count), words_(words) {}

  [[nodiscard]] std::string text(std::string_view name, std::string_view fallback = "") const {
    for (int i = 1; i + 1 < count_; ++i) {
      if (name == words_[i]) return words_[i + 1];
    }
    return std::string(fallback);
  }
  [[nodiscard]] double number(std::string_view name, double fallback) const {
    const std::string value = text(name);
    return value.empty() ? fallback : std::strtod(value.c_str(), nullptr);
  }
  [[nodiscard]] unsigned count(std::string_view name, unsigned fallback) const {
    return static_cast<unsigned>(number(name, fallback));
  }
  template <typename... Names>
  void allow(Names... names) const {
    for (int i = 1; i < count_; i += 2) {
      if (i + 1 < count_ && ((std::string_view(names) == words_[i]) || ...)) continue;
      std::fprintf(stderr, "%s: unknown option or missing value: %s\n", words_[0], words_[i]);
      std::exit(2);
    }
  }

 private:
  int count_;
  char** words_;
};

inline std::FILE* open_or_die(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) {
    std::perror(path.c_str());
    std::exit(1);
  }
  return file;
}

}  // namespace workload
