// SPDX-License-Identifier: Apache-2.0
#include "report/report.h"

#include <unistd.h>

#include "report/deliver.h"
#include "report/files.h"
#include "report/group.h"
#include "report/query.h"
#include "report/recording.h"
#include "report/render.h"
#include "report/terminal.h"

namespace spanfold::report {
namespace {

std::string render(const Recording& recording, const Answer& found, const Query& query, const Options& options) {
  switch (query.format) {
    case Format::kJson: return render_json(recording, found);
    case Format::kFolded: return render_folded(recording, found);
    case Format::kText: break;
  }
  return render_text(recording, found, is_stdout(options.output) ? style_of(STDOUT_FILENO) : Style{});
}

}  // namespace

Status run(const Options& options) {
  const Result<Query> query = parse_query(options);
  if (!query) return query.error();
  Recording recording;
  const std::vector<std::string> paths =
      options.paths.empty() ? std::vector<std::string>{"spanfold.otlp"} : options.paths;
  if (Status read = read_paths(paths, recording); !read) return read;
  const Answer found = answer(recording, *query);
  return deliver(render(recording, found, *query, options), options.output);
}

}  // namespace spanfold::report
