// SPDX-License-Identifier: Apache-2.0
#include "report/query.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

namespace spanfold::report {
namespace {

constexpr std::size_t kDefaultTextRows = 20;
constexpr std::size_t kAllRows = std::numeric_limits<std::size_t>::max();

template <typename Value>
using Choice = std::pair<std::string_view, Value>;

constexpr std::array kBys = {Choice<By>{"span", By::kSpan},         Choice<By>{"trace", By::kTrace},
                             Choice<By>{"service", By::kService},   Choice<By>{"process", By::kProcess},
                             Choice<By>{"function", By::kFunction}, Choice<By>{"stack", By::kStack}};
constexpr std::array kFormats = {Choice<Format>{"text", Format::kText}, Choice<Format>{"json", Format::kJson},
                                 Choice<Format>{"folded", Format::kFolded}};

Error usage(std::string what, std::string hint) {
  return Error{.what = std::move(what), .hint = std::move(hint), .failure = Failure::kUsage};
}

template <typename Choices>
auto choose(const Choices& choices, std::string_view option, std::string_view text)
    -> Result<typename Choices::value_type::second_type> {
  std::string names;
  for (const auto& [name, value] : choices) {
    if (name == text) return value;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  return usage(fmt::format("{} does not know \"{}\"", option, text), fmt::format("choose one of {}", names));
}

template <typename Id>
Result<Id> parse_id(std::string_view option, std::string_view text) {
  Id id{};
  bool good = text.size() == 2 * id.size();
  for (std::size_t at = 0; good && at < id.size(); ++at) {
    const char* digits = text.data() + 2 * at;
    good = std::from_chars(digits, digits + 2, id[at], 16).ptr == digits + 2;
  }
  if (good) return id;
  return usage(fmt::format("{} does not understand \"{}\"", option, text),
               fmt::format("give all {} hex digits", 2 * id.size()));
}

template <typename Id>
Status parse_ids(std::string_view option, const std::vector<std::string>& texts, std::vector<Id>& ids) {
  for (const std::string& text : texts) {
    Result<Id> id = parse_id<Id>(option, text);
    if (!id) return id.error();
    ids.push_back(*id);
  }
  return ok();
}

Result<std::vector<Kind>> parse_kinds(std::string_view text) {
  if (text == "all") return std::vector<Kind>(kKinds.begin(), kKinds.end());
  for (const Kind kind : kKinds) {
    if (kind_name(kind) == text) return std::vector<Kind>{kind};
  }
  return usage(fmt::format("--kind does not know \"{}\"", text), "choose one of on_cpu, blocked, runnable, all");
}

}  // namespace

std::string_view by_name(By by) {
  const auto* found = std::find_if(kBys.begin(), kBys.end(), [&](const auto& choice) { return choice.second == by; });
  return found->first;
}

Result<Query> parse_query(const Options& options) {
  if (options.by == "route") {
    return usage("--by route needs the routes of the spans, and profiles do not hold them",
                 "they will come from traces, with --traces FILE, which this version cannot read yet");
  }
  if (options.output.empty()) return usage("the output has no name", "name a file or - with -o");
  if (std::find(options.paths.begin(), options.paths.end(), "") != options.paths.end()) {
    return usage("a path to read is empty", "name a file or a folder");
  }
  const Result<By> by = choose(kBys, "--by", options.by);
  if (!by) return by.error();
  const Result<Format> format = choose(kFormats, "--format", options.format);
  if (!format) return format.error();
  Result<std::vector<Kind>> kinds = parse_kinds(options.kind);
  if (!kinds) return kinds.error();
  if (options.top && *options.top < 1) {
    return usage(fmt::format("--top {} shows nothing", *options.top), "give a number of rows, 1 or more");
  }

  Query query{.by = *by, .format = *format, .kinds = *std::move(kinds)};
  query.top = query.format == Format::kText ? kDefaultTextRows : kAllRows;
  if (options.top) query.top = static_cast<std::size_t>(*options.top);
  if (Status parsed = parse_ids("--span", options.spans, query.spans); !parsed) return parsed.error();
  if (Status parsed = parse_ids("--trace", options.traces, query.traces); !parsed) return parsed.error();
  query.pids = options.pids;
  query.services = options.services;
  query.functions = options.functions;
  return query;
}

}  // namespace spanfold::report
