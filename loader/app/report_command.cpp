// SPDX-License-Identifier: Apache-2.0
#include "app/report_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/log.h"
#include "report/report.h"

namespace spanfold::app {
namespace {

void declare(CLI::App& cli, report::Options& options, bool& verbose) {
  cli.set_help_flag("-h,--help", "this text");
  cli.add_option("PATH", options.paths, "files and folders that record wrote, or any OTLP profiles (spanfold.otlp)");
  cli.add_option("--by", options.by, "span (default), trace, service, process, function, stack");
  cli.add_option("--span", options.spans, "only these spans, 16 hex digits")->delimiter(',');
  cli.add_option("--trace", options.traces, "only these traces, 32 hex digits")->delimiter(',');
  cli.add_option("--pid", options.pids, "only these processes")->delimiter(',');
  cli.add_option("--service", options.services, "only these services");
  cli.add_option("--function", options.functions, "only stacks with this function");
  cli.add_option("--kind", options.kind, "on_cpu, blocked, runnable, all (default)");
  cli.add_option("--top", options.top, "rows (20 in text)");
  cli.add_option("--format", options.format, "text (default), json, folded");
  cli.add_option("-o,--output", options.output, "write here instead of standard output");
  cli.add_flag("-v,--verbose", verbose, "more on standard error");
}

}  // namespace

Result<int> report_command(const std::vector<std::string>& words) {
  report::Options options;
  bool verbose = false;
  CLI::App cli("Reads recordings and shows what ran in which span. Needs no root.", "spanfold report");
  declare(cli, options, verbose);
  try {
    // CLI11 wants the words last first.
    cli.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", cli.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    return Error{.what = error.what(), .hint = "see spanfold report --help", .failure = Failure::kUsage};
  }
  if (verbose) log::set_level(log::Level::kDebug);
  if (Status reported = report::run(options); !reported) return reported.error();
  return 0;
}

}  // namespace spanfold::app
