// SPDX-License-Identifier: Apache-2.0
#include "app/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <limits>

#include "base/clock.h"
#include "bpf/context_map.h"
#include "bpf/cpus.h"

namespace spanfold::app {
namespace {

constexpr std::uint64_t kShortestFlushNs = 10'000'000;

// What the command line says before it is checked.
struct RawRecord {
  std::string event = "cpu-clock";
  std::string duration;
  std::string max_disk;
  std::string flush = "5s";
  std::vector<std::string> cpus;
  std::string background = "count";
  std::string context = "auto";
  std::string lifecycle = "auto";
  std::string max_span_age;
  std::string max_overhead;
  std::string symbols = "local";
  std::int64_t max_frames = bpf::kMostUserFrames;
  std::int64_t frequency_hz = 99;
  std::vector<std::int64_t> pids;
  std::vector<std::int64_t> tids;
  bool verbose = false;
  bool quiet = false;
};

Error usage(std::string what, std::string hint = "see spanfold record --help") {
  return Error{.what = std::move(what), .hint = std::move(hint), .failure = Failure::kUsage};
}

CLI::Validator not_empty() {
  return {[](const std::string& text) { return std::string(text.empty() ? "may not be empty" : ""); }, ""};
}

// Where samples come from, and what they are taken of.
void declare_sampling(CLI::App& cli, RawRecord& raw, RecordOptions& options) {
  cli.add_option("-F,--freq", raw.frequency_hz, "samples a second on each CPU (99)");
  cli.add_option("-e,--event", raw.event, "what makes a sample (cpu-clock)");
  cli.add_option("-d,--duration", raw.duration, "end after 10, 500ms, 10s, 5m, 1h (no limit)")->check(not_empty());
  cli.add_option("-p,--pid", raw.pids, "only these processes")->delimiter(',');
  cli.add_option("-t,--tid", raw.tids, "only these threads")->delimiter(',');
  cli.add_option("-C,--cpu", raw.cpus, "only these CPUs, as 0-3,5");
  cli.add_option("--cgroup", options.cgroups, "only what is in these control groups, or below: folders, or their names")
      ->delimiter(',')
      ->check(not_empty());
  cli.add_option("--background", raw.background, "samples outside any span: count (default), stacks, none")
      ->check(CLI::IsMember({"count", "stacks", "none"}));
  cli.add_option("--max-overhead", raw.max_overhead,
                 "sample less often where BPF and loader take more than this, in percent of one CPU (1; 0: no limit)")
      ->check(not_empty());
}

// Which spans there are, and when they are over.
void declare_spans(CLI::App& cli, RawRecord& raw, RecordOptions& options) {
  cli.add_option("--ctx-map", options.context_path, "the pinned context map (/sys/fs/bpf/otel/traces_ctx_v1)")
      ->check(not_empty());
  cli.add_option("--context", raw.context, "where spans are known from: auto (default), map")
      ->check(CLI::IsMember({"auto", "map"}));
  cli.add_option("--lifecycle", raw.lifecycle,
                 "how ends of spans are seen: auto (default), fentry (hooks on the map), sweep (looking again)")
      ->check(CLI::IsMember({"auto", "fentry", "sweep"}));
  cli.add_flag("--span-times", options.span_times, "also when each span was on its threads, sampled or not");
  cli.add_option("--max-span-age", raw.max_span_age,
                 "a span that is longer on a thread counts as outside from then on (no limit)")
      ->check(not_empty());
}

void declare(CLI::App& cli, RawRecord& raw, RecordOptions& options) {
  const auto some = not_empty();
  cli.set_help_flag("-h,--help", "this text");
  cli.add_option("-o,--output", options.output,
                 "a file, a folder (ends in /) for one file each flush, or - (spanfold.otlp)")
      ->check(some);
  cli.add_option("--max-disk", raw.max_disk, "of a folder: the most that its files take in all, as 64M")->check(some);
  declare_sampling(cli, raw, options);
  declare_spans(cli, raw, options);
  cli.add_option("--flush", raw.flush, "how often finished work leaves the process (5s)");
  cli.add_option("--symbols", raw.symbols, "local (default), none")->check(CLI::IsMember({"local", "none"}));
  cli.add_option("--max-frames", raw.max_frames, "of the user half of a stack; beyond, it is truncated (128)");
  cli.add_flag("--lines", options.lines, "also lines of source and inlined functions, where files have DWARF");
  cli.add_flag("-v,--verbose", raw.verbose, "more on standard error");
  cli.add_flag("-q,--quiet", raw.quiet, "only warnings and errors on standard error");
}

Status take_ids(const std::vector<std::int64_t>& raw, std::string_view option, std::vector<std::uint32_t>& ids) {
  for (const std::int64_t id : raw) {
    if (id <= 0 || id > std::numeric_limits<std::int32_t>::max())
      return usage(fmt::format("{}: {} is no id", option, id));
    ids.push_back(static_cast<std::uint32_t>(id));
  }
  return ok();
}

Status take_cpus(const std::vector<std::string>& raw, std::vector<int>& cpus) {
  for (const std::string& list : raw) {
    const std::vector<int> some = bpf::parse_cpu_list(list);
    if (some.empty()) return usage(fmt::format("--cpu: {} is no list of CPUs", list), "as in 0-3,5");
    cpus.insert(cpus.end(), some.begin(), some.end());
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return ok();
}

Status take_time(const std::string& raw, std::string_view option, std::uint64_t least_ns, std::uint64_t& ns) {
  Result<std::uint64_t> parsed = parse_duration_ns(raw);
  if (!parsed) return usage(fmt::format("{}: {}", option, parsed.error().what), parsed.error().hint);
  if (*parsed < least_ns)
    return usage(fmt::format("{}: {} is too short", option, raw), fmt::format("at least {} ms", least_ns / 1'000'000));
  ns = *parsed;
  return ok();
}

// Percent of one CPU: a plain decimal number.
Status take_overhead(const std::string& raw, double& percent) {
  constexpr double kMost = 10'000;  // a hundred CPUs
  double value = 0;
  const auto [end, error] = std::from_chars(raw.data(), raw.data() + raw.size(), value, std::chars_format::fixed);
  // The comparison is false for what is no number.
  if (error != std::errc{} || end != raw.data() + raw.size() || !(value >= 0 && value <= kMost)) {
    return usage(fmt::format("--max-overhead: {} is out of range", raw),
                 "percent of one CPU, as 1 or 0.5; 0: no limit");
  }
  percent = value;
  return ok();
}

Status take_spans(const RawRecord& raw, RecordOptions& options) {
  if (options.context_path.empty()) options.context_path = bpf::default_context_path();
  // A bare name has no folder above it to look at.
  options.context_path = std::filesystem::absolute(options.context_path);
  if (raw.lifecycle == "fentry") options.lifecycle = bpf::Lifecycle::kFentry;
  if (raw.lifecycle == "sweep") options.lifecycle = bpf::Lifecycle::kSweep;
  if (raw.max_span_age.empty()) return ok();
  return take_time(raw.max_span_age, "--max-span-age", 1'000'000, options.max_span_age_ns);
}

Status take_numbers(const RawRecord& raw, RecordOptions& options) {
  constexpr std::int64_t kMostHz = 100'000;  // the kernel runs a clock at 10 µs at the most
  if (raw.frequency_hz < 1 || raw.frequency_hz > kMostHz) {
    return usage(fmt::format("--freq: {} is out of range", raw.frequency_hz),
                 "1 to 100000, and no more than kernel.perf_event_max_sample_rate");
  }
  options.frequency_hz = static_cast<std::uint32_t>(raw.frequency_hz);
  if (raw.max_frames < 1 || raw.max_frames > bpf::kMostUserFrames) {
    return usage(fmt::format("--max-frames: {} is out of range", raw.max_frames),
                 fmt::format("1 to {}", bpf::kMostUserFrames));
  }
  options.max_frames = static_cast<std::uint32_t>(raw.max_frames);
  if (!raw.duration.empty()) {
    if (Status taken = take_time(raw.duration, "--duration", 1'000'000, options.duration_ns); !taken) return taken;
  }
  if (!raw.max_disk.empty()) {
    Result<std::uint64_t> bytes = parse_size_bytes(raw.max_disk);
    if (!bytes) return usage(fmt::format("--max-disk: {}", bytes.error().what), bytes.error().hint);
    options.max_disk_bytes = *bytes;
  }
  if (!raw.max_overhead.empty()) {
    if (Status taken = take_overhead(raw.max_overhead, options.max_overhead_percent); !taken) return taken;
  }
  return take_time(raw.flush, "--flush", kShortestFlushNs, options.flush_ns);
}

Status take(const RawRecord& raw, RecordOptions& options) {
  if (raw.event != "cpu-clock")
    return usage(fmt::format("--event: {} is not known", raw.event), "this version samples by cpu-clock only");
  if (Status taken = take_numbers(raw, options); !taken) return taken;
  if (Status taken = take_ids(raw.pids, "--pid", options.pids); !taken) return taken;
  if (Status taken = take_ids(raw.tids, "--tid", options.tids); !taken) return taken;
  if (Status taken = take_cpus(raw.cpus, options.cpus); !taken) return taken;
  if (Status taken = take_spans(raw, options); !taken) return taken;
  if (raw.background == "stacks") options.background = Background::kStacks;
  if (raw.background == "none") options.background = Background::kNone;
  options.local_symbols = raw.symbols == "local";
  if (options.lines && !options.local_symbols) return usage("--lines and --symbols none exclude each other");
  if (raw.verbose) options.level = log::Level::kDebug;
  if (raw.quiet) options.level = log::Level::kWarning;
  if (!options.command.empty() && !(options.pids.empty() && options.tids.empty())) {
    return usage("a command and --pid or --tid exclude each other");
  }
  return ok();
}

// CLI11 wants the words last first.
std::vector<std::string> reversed(std::vector<std::string>::const_iterator begin,
                                  std::vector<std::string>::const_iterator end) {
  return {std::make_reverse_iterator(end), std::make_reverse_iterator(begin)};
}

}  // namespace

Result<ParsedRecord> parse_record(const std::vector<std::string>& words) {
  ParsedRecord parsed;
  RawRecord raw;
  CLI::App cli("Records which code ran inside which trace spans, until the command ends, the time is over, or Ctrl-C.",
               "spanfold record");
  declare(cli, raw, parsed.options);
  cli.footer("With -- COMMAND ARGS… at the end, records that command and its descendants from its first instruction.");
  // What follows "--" is the command's business, and never ours to parse.
  const auto split = std::find(words.begin(), words.end(), "--");
  if (split != words.end()) {
    parsed.options.command.assign(split + 1, words.end());
    if (parsed.options.command.empty()) return usage("there is no command behind --");
  }
  try {
    cli.parse(reversed(words.begin(), split));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", cli.help());
    parsed.help = true;
    return parsed;
  } catch (const CLI::ParseError& error) {
    return usage(error.what());
  }
  if (Status taken = take(raw, parsed.options); !taken) return taken.error();
  return parsed;
}

}  // namespace spanfold::app
