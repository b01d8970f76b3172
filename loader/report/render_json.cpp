// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "report/ids.h"
#include "report/json_writer.h"
#include "report/render.h"

namespace spanfold::report {
namespace {

void write_accounting(JsonWriter& json, const profile::Accounting& accounting) {
  json.key("accounting").begin_object();
  json.key("ticks").value(accounting.ticks);
  json.key("in_span").value(accounting.in_span);
  json.key("background").value(accounting.background);
  json.key("idle").value(accounting.idle);
  json.key("filtered").value(accounting.filtered);
  json.key("dropped").begin_object();
  for (const auto& [reason, count] : accounting.dropped) json.key(reason).value(count);
  json.end_object();
  json.key("missed").value(accounting.missed);
  if (accounting.recursion_misses) json.key("recursion_misses").value(*accounting.recursion_misses);
  if (accounting.unsampled != 0) json.key("unsampled").value(accounting.unsampled);
  json.end_object();
}

void write_cost(JsonWriter& json, std::string_view key, Kind kind, const Cost& cost) {
  json.key(key).begin_object();
  json.key(kind == Kind::kOnCpu ? "samples" : "events").value(cost.count);
  // No period in the file: the time is not known.
  if (cost.ns != 0 || cost.count == 0) json.key("ns").value(cost.ns);
  json.end_object();
}

// Kinds that a row has nothing of are absent, but one row always says something.
void write_costs(JsonWriter& json, const Costs& costs) {
  for (const Kind kind : kKinds) {
    const Cost& cost = costs[static_cast<std::size_t>(kind)];
    if (cost != Cost{} || (kind == Kind::kOnCpu && sum(costs) == Cost{})) write_cost(json, kind_name(kind), kind, cost);
  }
}

void write_stack(JsonWriter& json, const Recording& recording, const StackCost& stack) {
  json.begin_object();
  json.key("kind").value(kind_name(stack.kind));
  json.key("count").value(stack.cost.count);
  if (stack.cost.ns != 0) json.key("ns").value(stack.cost.ns);
  json.key("frames").begin_array();
  for (const std::uint32_t frame : recording.stack(stack.stack)) json.value(recording.frames()[frame]);
  json.end_array();
  json.end_object();
}

void write_row(JsonWriter& json, const Recording& recording, const Row& row) {
  json.begin_object();
  json.key("key").value(row.key);
  if (row.trace_id) json.key("trace_id").value(hex(*row.trace_id));
  if (row.span_id) json.key("span_id").value(hex(*row.span_id));
  if (row.service) json.key("service").value(*row.service);
  if (row.pid) json.key("pid").value(*row.pid);
  if (row.executable) json.key("process").value(*row.executable);
  if (row.times) {
    json.key("start_unix_nano").value(fmt::to_string(row.times->start_unix_nano));
    json.key("end_unix_nano").value(fmt::to_string(row.times->end_unix_nano));
  }
  if (row.ended) json.key("ended").boolean(*row.ended);
  write_costs(json, row.cost);
  if (row.times) {
    json.key("on_thread_ns").value(row.times->on_thread_ns);
    json.key("stays").value(row.times->stays);
  }
  if (row.total) {
    json.key("total").begin_object();
    write_costs(json, *row.total);
    json.end_object();
  }
  json.key("stacks").begin_array();
  for (const StackCost& stack : row.stacks) write_stack(json, recording, stack);
  json.end_array();
  json.end_object();
}

}  // namespace

std::string render_json(const Recording& recording, const Answer& answer) {
  std::string text;
  JsonWriter json(text);
  json.begin_object();
  json.key("schema").value("spanfold.report/1");
  if (recording.end_unix_nano() != 0) {
    json.key("window").begin_object();
    json.key("start_unix_nano").value(fmt::to_string(recording.start_unix_nano()));
    json.key("duration_ns").value(recording.end_unix_nano() - recording.start_unix_nano());
    json.end_object();
  }
  if (recording.frequency_hz()) json.key("frequency_hz").value(std::uint64_t{*recording.frequency_hz()});
  if (const auto achieved = recording.achieved_hz()) json.key("achieved_hz").decimal(*achieved);
  if (recording.accounting) write_accounting(json, *recording.accounting);
  json.key("rows").begin_array();
  for (const Row& row : answer.rows) write_row(json, recording, row);
  if (answer.others) write_row(json, recording, *answer.others);
  json.end_array();
  json.end_object();
  text += '\n';
  return text;
}

}  // namespace spanfold::report
