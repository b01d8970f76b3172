// SPDX-License-Identifier: Apache-2.0
// The text report: what a person sees first. Functions by self cost below each span, trace, service or process.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "profile/accounting.h"
#include "report/ids.h"
#include "report/render.h"
#include "report/terminal.h"

namespace spanfold::report {
namespace {

constexpr std::size_t kFunctionsOfOne = 20;  // where there is one row only
constexpr std::size_t kFunctionsOfMany = 3;  // below each of several
constexpr std::size_t kNameWidth = 48;       // columns for a service or process name in a heading
constexpr std::size_t kTraceDigits = 16;     // enough to find it again

constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kReset = "\x1b[0m";

std::string iso_utc(std::uint64_t unix_nano) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const auto seconds = static_cast<std::time_t>(unix_nano / kSecond);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z", fmt::gmtime(seconds), unix_nano % kSecond);
}

std::string duration(std::uint64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns < 1'000'000) return fmt::format("{:.3g} µs", value / 1e3);
  if (ns < 1'000'000'000) return fmt::format("{:.0f} ms", value / 1e6);
  if (ns < 100'000'000'000) return fmt::format("{:.2f} s", value / 1e9);
  return fmt::format("{:.0f} s", value / 1e9);
}

bool has_waiting(const Costs& costs) {
  return std::any_of(kKinds.begin(), kKinds.end(), [&costs](Kind kind) {
    return kind != Kind::kOnCpu && costs[static_cast<std::size_t>(kind)] != Cost{};
  });
}

class TextReport {
 public:
  TextReport(const Recording& recording, const Answer& answer, const Style& style)
      : recording_(recording),
        answer_(answer),
        style_(style),
        by_time_(has_waiting(answer.cost)),
        all_(weight(answer.cost)) {}

  std::string render() {
    if (answer_.rows.empty()) {
      line("no samples match");
    } else {
      rates();
    }
    if (answer_.by == By::kFunction) {
      functions_table();
    } else {
      for (const Row& row : answer_.rows) {
        if (&row != &answer_.rows.front()) line("");
        heading(row);
        bounds(row);
        if (answer_.by == By::kStack) {
          frames(row);
        } else {
          functions(row);
        }
      }
      if (answer_.others) {
        line("");
        line(fmt::format("and {} more", answer_.cut_rows) + figures(*answer_.others), kDim);
      }
    }
    closing();
    return std::move(text_);
  }

 private:
  // Samples where all is on CPU, else nanoseconds: what shares are made of.
  [[nodiscard]] std::uint64_t weight(const Costs& costs) const { return by_time_ ? sum(costs).ns : sum(costs).count; }

  static double percent(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  }

  [[nodiscard]] std::string amount(const Costs& costs) const {
    return by_time_ ? duration(weight(costs)) : fmt::to_string(weight(costs));
  }

  void line(std::string_view content, std::string_view color = {}) {
    const bool colored = style_.color && !color.empty() && !content.empty();
    text_ += fmt::format("{}{}{}\n", colored ? color : "", fit(content, style_.width), colored ? kReset : "");
  }

  // "checkout (pid 4711)", as far as it is known.
  static std::string who(const Row& row) {
    std::string name = fit(printable(row.service ? *row.service : row.executable.value_or("")), kNameWidth);
    if (row.pid) name += fmt::format("{}(pid {})", name.empty() ? "" : " ", *row.pid);
    return name;
  }

  static std::string subject(const Row& row, By by) {
    const std::string process = who(row);
    const std::string suffix = process.empty() ? "" : "  " + process;
    switch (by) {
      case By::kSpan:
        if (!row.span_id) return std::string(kNoSpanKey) + suffix;
        return fmt::format("span {}  trace {}…{}", hex(*row.span_id), hex(*row.trace_id).substr(0, kTraceDigits),
                           suffix);
      case By::kTrace: return (row.trace_id ? "trace " : "") + row.key + suffix;
      case By::kService: return "service " + printable(row.key);
      case By::kProcess: return "process " + (process.empty() ? printable(row.key) : process);
      case By::kFunction:
      case By::kStack: return "stack" + suffix;
    }
    return {};
  }

  [[nodiscard]] std::string costs(const Costs& costs) const {
    std::string text;
    const Cost& on_cpu = costs[static_cast<std::size_t>(Kind::kOnCpu)];
    if (on_cpu != Cost{}) {
      if (on_cpu.ns != 0) text += fmt::format("   ≈ {} on CPU", duration(on_cpu.ns));
      text += fmt::format("   {} sample{}", on_cpu.count, on_cpu.count == 1 ? "" : "s");
      if (recording_.frequency_hz()) text += fmt::format(" at {} Hz", *recording_.frequency_hz());
    }
    for (const Kind kind : {Kind::kBlocked, Kind::kRunnable}) {
      const Cost& cost = costs[static_cast<std::size_t>(kind)];
      if (cost != Cost{}) text += fmt::format("   {} {} ({} events)", kind_name(kind), duration(cost.ns), cost.count);
    }
    return text;
  }

  // Costs, and time on threads where it is known.
  [[nodiscard]] std::string figures(const Row& row) const {
    std::string text = costs(row.cost);
    if (!row.times) return text;
    if (text.empty()) text += "   no samples";
    const std::uint64_t stays = row.times->stays;
    return text + fmt::format("   {} on threads in {} stay{}", duration(row.times->on_thread_ns), stays,
                              stays == 1 ? "" : "s");
  }

  // Asked for, and what of it was achieved.
  void rates() {
    const auto achieved = recording_.achieved_hz();
    if (!achieved) return;
    line(fmt::format("asked {} Hz, achieved {:.1f} Hz", *recording_.frequency_hz(), *achieved));
    line("");
  }

  // Where a span that was asked for begins and ends.
  void bounds(const Row& row) {
    if (!answer_.of_named_spans || !row.times || !row.ended) return;
    line(fmt::format("  begin {}  {} {}", iso_utc(row.times->start_unix_nano), *row.ended ? "end" : "last seen",
                     iso_utc(row.times->end_unix_nano)));
  }

  // What a row cost is never cut: where both do not fit, it has a line of its own.
  void heading(const Row& row) {
    const std::string who = subject(row, answer_.by);
    const std::string whole = who + figures(row);
    if (fit(whole, style_.width) == whole) {
      line(whole, kBold);
      return;
    }
    line(who, kBold);
    line(figures(row), kBold);
  }

  void function_line(std::string_view amount_text, double share, std::uint32_t frame) {
    const std::string& name = recording_.frames()[frame];
    line(fmt::format("{:>5} {:5.1f} %  {}", amount_text, share, printable(name)), name.starts_with('[') ? kDim : "");
  }

  void functions(const Row& row) {
    const std::size_t most = answer_.rows.size() == 1 ? kFunctionsOfOne : kFunctionsOfMany;
    std::size_t shown = 0;
    for (const FunctionCost& function : functions_of(recording_, row.stacks)) {
      if (shown++ == most || sum(function.self) == Cost{}) break;
      function_line(amount(function.self), percent(weight(function.self), weight(row.cost)), function.frame);
    }
  }

  void frames(const Row& row) {
    if (row.stacks.empty()) return;
    for (const std::uint32_t frame : recording_.stack(row.stacks.front().stack)) {
      line("    " + printable(recording_.frames()[frame]));
    }
  }

  void functions_table() {
    if (answer_.rows.empty()) return;
    line(fmt::format("{:>7} {:>7}  {:>7} {:>7}  {}", "self", "", "total", "", "function"), kBold);
    for (const Row& row : answer_.rows) {
      const Costs total = row.total.value_or(row.cost);
      line(fmt::format("{:>7} {:5.1f} %  {:>7} {:5.1f} %  {}", amount(row.cost), percent(weight(row.cost), all_),
                       amount(total), percent(weight(total), all_), printable(row.key)));
    }
    if (answer_.others) {
      const Costs& cost = answer_.others->cost;
      line(fmt::format("{:>7} {:5.1f} %  {:>7} {:>7}  and {} more", amount(cost), percent(weight(cost), all_), "", "",
                       answer_.cut_rows),
           kDim);
    }
  }

  void closing() {
    if (!recording_.accounting) return;
    line("");
    // Never cut: it is there to be added up. A terminal wraps it.
    text_ += printable(profile::describe(*recording_.accounting)) + "\n";
  }

  const Recording& recording_;
  const Answer& answer_;
  Style style_;
  bool by_time_;
  std::uint64_t all_;
  std::string text_;
};

}  // namespace

std::string render_text(const Recording& recording, const Answer& answer, const Style& style) {
  return TextReport(recording, answer, style).render();
}

}  // namespace spanfold::report
