// SPDX-License-Identifier: Apache-2.0
#include "report/row_maker.h"

#include <fmt/format.h>

#include <optional>

#include "report/ids.h"

namespace spanfold::report {
namespace {

template <typename Value>
void agree_on(std::optional<Value>& common, const std::optional<Value>& value) {
  if (common != value) common.reset();
}

std::optional<std::string> known(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional<std::string>(text);
}

}  // namespace

Row RowMaker::make(const Entry& entry) const {
  Row row;
  const Process& process = recording_.processes()[entry.process];
  row.pid = process.pid;
  row.service = known(process.service);
  row.executable = known(process.executable);
  name(row, entry);
  return row;
}

void RowMaker::agree(Row& row, std::uint32_t process) const {
  const Process& other = recording_.processes()[process];
  agree_on(row.pid, other.pid);
  agree_on(row.service, known(other.service));
  agree_on(row.executable, known(other.executable));
}

std::string RowMaker::service_key(const Entry& entry) const {
  const Process& process = recording_.processes()[entry.process];
  if (!process.service.empty()) return process.service;
  return process.executable.empty() ? std::string(kOtherProcessesKey) : process.executable;
}

void RowMaker::name(Row& row, const Entry& entry) const {
  const SpanContext& span = recording_.spans()[entry.span];
  switch (by_) {
    case By::kSpan:
      row.key = span.valid() ? hex(span.span_id) : std::string(kNoSpanKey);
      if (span.valid()) row.span_id = span.span_id;
      if (span.valid()) row.trace_id = span.trace_id;
      break;
    case By::kTrace:
      row.key = span.valid() ? hex(span.trace_id) : std::string(kNoSpanKey);
      if (span.valid()) row.trace_id = span.trace_id;
      break;
    case By::kService: row.key = service_key(entry); break;
    case By::kProcess: row.key = row.pid ? fmt::to_string(*row.pid) : service_key(entry); break;
    case By::kFunction: row.key = recording_.frames()[recording_.stack(entry.stack).front()]; break;
    case By::kStack: {
      const auto frames = recording_.stack(entry.stack);
      // NOLINTNEXTLINE(modernize-loop-convert): clang 14 cannot compile the library's reverse_view
      for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
        row.key += (row.key.empty() ? "" : ";") + recording_.frames()[*frame];
      }
      break;
    }
  }
}

}  // namespace spanfold::report
