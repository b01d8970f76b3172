// SPDX-License-Identifier: Apache-2.0
// The known answer: one thread spends known CPU times in known functions inside known spans, with work outside of any
// span in between, and writes down what it did. Byte 0 of a span id says which of the kinds below it is.
#include <cstdio>
#include <string>

#include "telemetry.h"
#include "workload.h"

namespace {

using workload::burn;
using workload::ScopedSpan;
using workload::SpanKind;

enum Kind : std::uint8_t { kParse = 1, kPrice = 2, kRender = 3, kCompress = 4 };

}  // namespace

// Named and linked like the functions of a program, so that symbol tables hold them.
[[WORKLOAD_KEEP]] void parse_date(const std::string& text, std::uint64_t cpu_ns) {
  ScopedSpan::account("parse_date", burn(cpu_ns + text.size()));
}
[[WORKLOAD_KEEP]] void parse_number(const std::string& text, std::uint64_t cpu_ns) {
  ScopedSpan::account("parse_number", burn(cpu_ns + text.size()));
}
[[WORKLOAD_KEEP]] void apply_discount(std::uint64_t cpu_ns) { ScopedSpan::account("apply_discount", burn(cpu_ns)); }
[[WORKLOAD_KEEP]] void sum_cart(std::uint64_t cpu_ns) { ScopedSpan::account("sum_cart", burn(cpu_ns)); }
[[WORKLOAD_KEEP]] void render_page(std::uint64_t cpu_ns) { ScopedSpan::account("render_page", burn(cpu_ns)); }
[[WORKLOAD_KEEP]] void compress_body(std::uint64_t cpu_ns) { ScopedSpan::account("compress_body", burn(cpu_ns)); }
[[WORKLOAD_KEEP]] std::uint64_t poll_for_work(std::uint64_t cpu_ns) { return burn(cpu_ns); }

namespace {

// Shares are tenths of span_ns.
void run_span(workload::SpanLog& log, std::uint64_t serial, std::uint64_t seed, std::uint64_t span_ns) {
  const std::uint64_t tenth_ns = span_ns / 10;
  const auto ids = [&](Kind kind) { return workload::make_ids(kind, 0, serial, seed, serial); };
  switch (serial % 3) {
    case 0: {
      const ScopedSpan span(log, ids(kParse), "parse", SpanKind::kInternal);
      parse_date("2024-02-29", 7 * tenth_ns);
      parse_number("29.95", 3 * tenth_ns);
      return;
    }
    case 1: {
      const ScopedSpan span(log, ids(kPrice), "price", SpanKind::kInternal);
      apply_discount(2 * tenth_ns);
      sum_cart(8 * tenth_ns);
      return;
    }
    default: {
      const ScopedSpan span(log, ids(kRender), "render", SpanKind::kServer, "/page/{id}");
      render_page(3 * tenth_ns);
      {
        const ScopedSpan inner(log, ids(kCompress), "compress", SpanKind::kInternal);
        compress_body(4 * tenth_ns);
      }
      render_page(3 * tenth_ns);
    }
  }
}

}  // namespace

int main(int count, char** words) {
  const workload::Options options(count, words);
  options.allow("--seconds", "--seed", "--span-ms", "--gap-ms", "--spans", "--traces", "--truth");
  const double seconds = options.number("--seconds", 5);  // of CPU time, spans and gaps together
  const std::uint64_t seed = options.count("--seed", 1);
  const auto span_ns = static_cast<std::uint64_t>(options.number("--span-ms", 20) * 1e6);
  const auto gap_ns = static_cast<std::uint64_t>(options.number("--gap-ms", 4) * 1e6);
  // 0: as many as there is time for.
  const std::uint64_t spans = options.count("--spans", 0);

  std::uint64_t gaps_ns = 0;
  {
    workload::SpanLog log("known", options.text("--traces"), options.text("--truth"));
    const auto end_ns = static_cast<std::uint64_t>(seconds * 1e9);
    for (std::uint64_t serial = 0; workload::thread_cpu_ns() < end_ns && (spans == 0 || serial < spans); ++serial) {
      run_span(log, serial, seed, span_ns);
      if (gap_ns != 0) gaps_ns += poll_for_work(gap_ns);
    }
  }
  std::printf("cpu_ns %llu gap_cpu_ns %llu\n", static_cast<unsigned long long>(workload::thread_cpu_ns()),
              static_cast<unsigned long long>(gaps_ns));
  return 0;
}
