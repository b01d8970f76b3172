# SPDX-License-Identifier: Apache-2.0
"""The real service under load, beside its own traces and its own measure of CPU time."""

import collections
import re
import signal

import analysis
import harness

FREQ = 999


class Service(harness.StageCase):
    @classmethod
    def set_up_stage(cls):
        folder = cls.stage.folder
        writer = cls.stage.start_writer(binaries=["service"])
        files = ["--traces", folder / "traces.jsonl", "--truth", folder / "truth.jsonl"]
        service = cls.stage.start_workload("service", *files, ready="listening")
        port = service.await_line("listening").split()[1]
        record = cls.stage.begin_record("-F", FREQ, "--flush", "2", "-p", service.pid)
        load = cls.stage.start_workload("load", "--port", port, "--rate", "60", "--seconds", "6")
        load.wait()
        record.send(signal.SIGTERM)
        cls.recording = cls.stage.finish(record).check()
        cls.load = load.out()
        if service.stop() != 0 or writer.stop() != 0:
            raise AssertionError("service or writer did not end well")
        cls.truth = {(span["trace_id"], span["span_id"]): span for span in harness.read_lines(folder / "truth.jsonl")}
        cls.traces = {}
        for line in harness.read_lines(folder / "traces.jsonl"):
            for span in line["resourceSpans"][0]["scopeSpans"][0]["spans"]:
                cls.traces[span["traceId"], span["spanId"]] = span
        cls.pid = service.pid
        cls.rows = analysis.span_rows(cls.recording.rows())

    def test_load_was_served(self):
        requests, errors = map(int, re.search(r"requests (\d+) errors (\d+)", self.load).groups())
        self.assertEqual(errors, 0)
        self.assertGreater(requests, 200)

    def test_each_span_is_one_that_the_service_ran(self):
        for row in self.rows:
            self.assertIn((row["trace_id"], row["span_id"]), self.traces)
            self.assertEqual((row["pid"], row["process"]), (self.pid, "service"))

    def test_no_span_shows_the_work_of_another(self):
        """A child never shows its parent's functions, nor the parent those of its child."""
        counts = analysis.check_right_spans(self.rows, analysis.SERVICE)
        self.assertEqual(set(counts), set(analysis.SERVICE))
        for kind, functions in analysis.SERVICE.items():
            self.assertLessEqual(functions, set(counts[kind]))
            own = sum(counts[kind][name] for name in functions)
            self.assertGreater(own, 0.9 * sum(counts[kind].values()), functions)

    def test_shares_by_route(self):
        counts = analysis.check_right_spans(self.rows, analysis.SERVICE)
        spent = collections.defaultdict(collections.Counter)
        for span in self.truth.values():
            spent[int(span["span_id"][:2], 16)].update(span["functions"])
        for kind in analysis.SERVICE:
            named = sum(count for name, count in counts[kind].items() if name)
            for name, cpu_ns in spent[kind].items():
                analysis.check_share(name, counts[kind][name], named, cpu_ns / sum(spent[kind].values()), slack=0.02)

    def test_samples_are_cpu_seconds(self):
        expected = sum(span["cpu_ns"] for span in self.truth.values()) * FREQ / 1e9
        accounting = self.recording.accounting
        self.assertEqual(accounting.dropped, 0)
        analysis.check_count("in spans", accounting.in_span, expected, accounting.missed, slack=0.03)

    def test_samples_fall_within_their_spans(self):
        """First and last sample, where the report has them, lie between start and end in the traces."""
        slack_ns = 20_000_000
        for row in self.rows:
            span = self.traces[row["trace_id"], row["span_id"]]
            if "start_unix_nano" in row:
                self.assertGreaterEqual(int(row["start_unix_nano"]), int(span["startTimeUnixNano"]) - slack_ns)
            if "end_unix_nano" in row:
                self.assertLessEqual(int(row["end_unix_nano"]), int(span["endTimeUnixNano"]) + slack_ns)

    def test_report_by_function(self):
        text = harness.report(self.recording.files, "--by", "function", "--top", "20")
        for name in ("parse_date", "render_csv", "rank_results"):
            self.assertIn(name, text)
