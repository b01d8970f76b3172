// SPDX-License-Identifier: Apache-2.0
#include "app/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string_view>

#include "app/options.h"
#include "app/session.h"
#include "app/version.h"
#include "base/log.h"
#include "base/result.h"

#ifdef SPANFOLD_WITH_REPORT
#include "app/report_command.h"
#endif

namespace spanfold::app {
namespace {

constexpr std::string_view kUsage =
    "usage: spanfold record [options] [-- command args…]\n"
#ifdef SPANFOLD_WITH_REPORT
    "       spanfold report PATH… [options]\n"
#endif
    "       spanfold --version\n"
    "\n"
    "Tells which code ran inside a trace span. spanfold COMMAND --help lists a command's options.\n";

int fail(const Error& error) {
  log::error("{}", error.message());
  return static_cast<int>(error.failure);
}

int run_record(const std::vector<std::string>& words) {
  Result<ParsedRecord> parsed = parse_record(words);
  if (!parsed) return fail(parsed.error());
  if (parsed->help) return 0;
  log::set_level(parsed->options.level);
  Result<int> code = record(parsed->options);
  if (code) return *code;
  const int failed = fail(code.error());
  return parsed->options.command.empty() ? failed : kOwnFailureBesideCommand;
}

int dispatch(const std::vector<std::string>& words) {
  if (words.empty()) {
    fmt::print(stderr, "{}", kUsage);
    return static_cast<int>(Failure::kUsage);
  }
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (words[0] == "record") return run_record(rest);
#ifdef SPANFOLD_WITH_REPORT
  if (words[0] == "report") {
    Result<int> code = report_command(rest);
    return code ? *code : fail(code.error());
  }
#endif
  if (words[0] == "--version") {
    fmt::print("spanfold {}\n", kVersion);
    return 0;
  }
  if (words[0] == "--help" || words[0] == "-h") {
    fmt::print("{}", kUsage);
    return 0;
  }
  return fail(Error{
      .what = fmt::format("{} is no command", words[0]), .hint = "see spanfold --help", .failure = Failure::kUsage});
}

}  // namespace

int run_command(const std::vector<std::string>& words) {
  try {
    return dispatch(words);
  } catch (const std::exception& error) {
    // Memory that is not to be had, from the standard library; our own code returns its failures.
    return fail(Error{.what = error.what()});
  }
}

}  // namespace spanfold::app
