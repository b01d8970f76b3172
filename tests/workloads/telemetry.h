// SPDX-License-Identifier: Apache-2.0
// Spans as a workload knows them: they tell the context writer when they begin and end, and write themselves as OTLP
// traces (the collector's file exporter form, one JSON message a line) and as truth (CPU time by function).
#pragma once

#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "workload.h"

namespace workload {

// Numbers of opentelemetry.proto.trace.v1.Span.SpanKind.
enum class SpanKind { kInternal = 1, kServer = 2, kClient = 3 };

struct SpanRecord {
  SpanIds ids;
  std::string parent_span_id;  // hex; empty: a root
  std::string name;
  std::string route;  // empty: none
  SpanKind kind = SpanKind::kInternal;
  std::uint64_t start_unix_ns = 0;
  std::uint64_t end_unix_ns = 0;
  std::uint64_t own_cpu_ns = 0;  // without the spans inside it
  std::map<std::string, std::uint64_t> function_cpu_ns;
};

class SpanLog {
 public:
  // Either path may be empty: not written.
  SpanLog(const std::string& service, const std::string& traces_path, const std::string& truth_path)
      : service_(service),
        traces_(traces_path.empty() ? nullptr : open_or_die(traces_path)),
        truth_(truth_path.empty() ? nullptr : open_or_die(truth_path)) {}
  SpanLog(const SpanLog&) = delete;
  SpanLog& operator=(const SpanLog&) = delete;
  ~SpanLog() {
    if (traces_ != nullptr) std::fclose(traces_);
    if (truth_ != nullptr) std::fclose(truth_);
  }

  // All spans of one trace that this thread ran.
  void write(const std::vector<SpanRecord>& spans) {
    const std::lock_guard lock(mutex_);
    if (traces_ != nullptr) std::fprintf(traces_, "%s\n", traces_line(spans).c_str());
    if (truth_ == nullptr) return;
    for (const SpanRecord& span : spans) std::fprintf(truth_, "%s\n", truth_line(span).c_str());
  }

 private:
  static std::string member(const char* name, const std::string& value) {
    return "\"" + std::string(name) + "\":\"" + value + "\"";
  }
  static std::string attribute(const char* key, const char* type, const std::string& value) {
    return "{" + member("key", key) + ",\"value\":{" + member(type, value) + "}}";
  }

  [[nodiscard]] std::string traces_line(const std::vector<SpanRecord>& spans) const {
    std::string line = "{\"resourceSpans\":[{\"resource\":{\"attributes\":[" +
                       attribute("service.name", "stringValue", service_) + "," +
                       attribute("process.pid", "intValue", std::to_string(getpid())) +
                       "]},\"scopeSpans\":[{\"scope\":{\"name\":\"workload\"},\"spans\":[";
    for (const SpanRecord& span : spans) {
      if (line.back() == '}') line += ',';
      line += span_object(span);
    }
    return line + "]}]}]}";
  }
  static std::string span_object(const SpanRecord& span) {
    std::string text = "{" + member("traceId", hex(span.ids.trace_id)) + "," + member("spanId", hex(span.ids.span_id)) +
                       "," + member("parentSpanId", span.parent_span_id) + "," + member("name", span.name) +
                       ",\"kind\":" + std::to_string(static_cast<int>(span.kind)) + "," +
                       member("startTimeUnixNano", std::to_string(span.start_unix_ns)) + "," +
                       member("endTimeUnixNano", std::to_string(span.end_unix_ns)) + ",\"attributes\":[";
    if (!span.route.empty()) text += attribute("http.route", "stringValue", span.route);
    return text + "],\"status\":{}}";
  }
  static std::string truth_line(const SpanRecord& span) {
    std::string text = "{" + member("trace_id", hex(span.ids.trace_id)) + "," +
                       member("span_id", hex(span.ids.span_id)) + "," + member("name", span.name) + "," +
                       member("route", span.route) + ",\"start_unix_nano\":" + std::to_string(span.start_unix_ns) +
                       ",\"end_unix_nano\":" + std::to_string(span.end_unix_ns) +
                       ",\"cpu_ns\":" + std::to_string(span.own_cpu_ns) + ",\"functions\":{";
    const char* comma = "";
    for (const auto& [name, cpu_ns] : span.function_cpu_ns) {
      text += comma + std::string("\"") + name + "\":" + std::to_string(cpu_ns);
      comma = ",";
    }
    return text + "}}";
  }

  std::mutex mutex_;
  std::string service_;
  std::FILE* traces_;
  std::FILE* truth_;
};

// A span of the calling thread for as long as it lives. Spans nest as scopes do.
class ScopedSpan {
 public:
  ScopedSpan(SpanLog& log, const SpanIds& ids, std::string name, SpanKind kind, std::string route = "")
      : log_(log), parent_(current) {
    record_.ids = ids;
    if (parent_ != nullptr) {
      record_.ids.trace_id = parent_->record_.ids.trace_id;
      record_.parent_span_id = hex(parent_->record_.ids.span_id);
    }
    record_.name = std::move(name);
    record_.route = std::move(route);
    record_.kind = kind;
    record_.start_unix_ns = wall_ns();
    current = this;
    cpu_start_ns_ = thread_cpu_ns();
    begin(record_.ids);
  }
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;
  ~ScopedSpan() {
    end();
    const std::uint64_t cpu_ns = thread_cpu_ns() - cpu_start_ns_;
    record_.end_unix_ns = wall_ns();
    record_.own_cpu_ns = cpu_ns - inner_cpu_ns_;
    finished.push_back(std::move(record_));
    current = parent_;
    if (parent_ != nullptr) {
      parent_->inner_cpu_ns_ += cpu_ns;
      return;
    }
    // Written outside of any span, so that writing is nobody's work.
    log_.write(finished);
    finished.clear();
  }

  // What a function used goes to the span that its thread is in.
  static void account(const char* function, std::uint64_t cpu_ns) {
    if (current != nullptr) current->record_.function_cpu_ns[function] += cpu_ns;
  }

 private:
  SpanLog& log_;
  ScopedSpan* parent_;
  SpanRecord record_;
  std::uint64_t cpu_start_ns_ = 0;
  std::uint64_t inner_cpu_ns_ = 0;

  static inline thread_local ScopedSpan* current = nullptr;
  static inline thread_local std::vector<SpanRecord> finished;
};

}  // namespace workload
