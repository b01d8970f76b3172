# SPDX-License-Identifier: Apache-2.0
"""The known answer: one thread, known CPU times in known functions inside known spans."""

import collections
import re

import analysis
import harness

FREQ = 999


class KnownAnswer(harness.StageCase):
    @classmethod
    def set_up_stage(cls):
        cls.stage.start_writer(binaries=["known"])
        truth = cls.stage.folder / "truth.jsonl"
        command = harness.workload("known", "--seconds", "6", "--truth", truth)
        cls.recording = cls.stage.record("-F", FREQ, command=command).check()
        cls.truth = harness.read_lines(truth)
        cls.cpu_ns = int(re.search(r"cpu_ns (\d+)", cls.recording.stdout).group(1))
        cls.rows = cls.recording.rows("span")

    def test_each_sample_is_in_the_right_span(self):
        counts = analysis.check_right_spans(self.rows, analysis.KNOWN)
        total = sum(sum(kind.values()) for kind in counts.values())
        self.assertEqual(total, self.recording.accounting.in_span)
        unnamed = sum(kind[None] for kind in counts.values())
        # Entry and exit of the span itself, and the turn of a function's prologue.
        self.assertLess(unnamed, 0.02 * total, "samples in spans without any of their functions")

    def test_spans_are_those_that_ran(self):
        ran = {(span["trace_id"], span["span_id"]) for span in self.truth}
        seen = {(row["trace_id"], row["span_id"]) for row in analysis.span_rows(self.rows)}
        self.assertLessEqual(seen, ran)
        # 8 ms and more at 999 Hz: a span without a sample is a lost one, but for one that a host's steal fell on.
        self.assertGreater(len(seen), 0.98 * len(ran))

    def test_shares_of_functions(self):
        counts = analysis.check_right_spans(self.rows, analysis.KNOWN)
        spent = collections.defaultdict(collections.Counter)
        for span in self.truth:
            spent[int(span["span_id"][:2], 16)].update(span["functions"])
        for kind in analysis.KNOWN:
            named = sum(count for name, count in counts[kind].items() if name)
            for name, cpu_ns in spent[kind].items():
                analysis.check_share(name, counts[kind][name], named, cpu_ns / sum(spent[kind].values()))

    def test_samples_of_each_span(self):
        by_span = {row["span_id"]: harness.samples(row) for row in analysis.span_rows(self.rows)}
        for span in self.truth:
            expected = span["cpu_ns"] * FREQ / 1e9
            with self.subTest(span=span["span_id"]):
                found = by_span.get(span["span_id"], 0)
                analysis.check_count(span["name"], found, expected, self.recording.accounting.missed, sigmas=4.5)

    def test_samples_are_cpu_seconds(self):
        accounting = self.recording.accounting
        self.assertEqual(accounting.dropped, 0)
        in_spans = sum(span["cpu_ns"] for span in self.truth) * FREQ / 1e9
        analysis.check_count("in spans", accounting.in_span, in_spans, accounting.missed)
        in_all = accounting.in_span + accounting.background
        analysis.check_count("the process", in_all, self.cpu_ns * FREQ / 1e9, accounting.missed)

    def test_time_is_samples_by_period(self):
        for row in self.rows:
            count = harness.samples(row)
            self.assertAlmostEqual(row["on_cpu"]["ns"], count * round(1e9 / FREQ), delta=count)

    def test_every_grouping_holds_the_same_samples(self):
        accounting = self.recording.accounting
        for by in ("span", "trace", "process", "function", "stack"):
            with self.subTest(by=by):
                total = sum(harness.samples(row) for row in self.recording.rows(by))
                self.assertEqual(total, accounting.in_span + accounting.background)

    def test_a_trace_is_its_spans(self):
        traces = collections.Counter()
        for row in analysis.span_rows(self.rows):
            traces[row["trace_id"]] += harness.samples(row)
        found = {row["trace_id"]: harness.samples(row) for row in self.recording.rows("trace") if "trace_id" in row}
        self.assertEqual(found, dict(traces))

    def test_filters_narrow(self):
        row = analysis.span_rows(self.rows)[0]
        only = self.recording.rows("span", "--span", row["span_id"])
        self.assertEqual([one["span_id"] for one in only], [row["span_id"]])
        self.assertEqual(harness.samples(only[0]), harness.samples(row))
        trace = self.recording.rows("span", "--trace", row["trace_id"])
        self.assertEqual({one["trace_id"] for one in trace}, {row["trace_id"]})
        with_function = self.recording.rows("span", "--function", "compress_body")
        self.assertEqual({analysis.kind_of(one) for one in analysis.span_rows(with_function)}, {4})

    def test_process_is_named(self):
        rows = [row for row in self.recording.rows("process") if row.get("process") == "known"]
        self.assertEqual(len(rows), 1, rows)
        self.assertGreaterEqual(harness.samples(rows[0]), self.recording.accounting.in_span)

    def test_folded_holds_the_same_samples(self):
        lines = harness.report(self.recording.files, "--format", "folded", "--top", harness.EVERYTHING).splitlines()
        counts = [int(line.rsplit(" ", 1)[1]) for line in lines]
        accounting = self.recording.accounting
        self.assertEqual(sum(counts), accounting.in_span + accounting.background)
        stacks = [line.rsplit(" ", 1)[0] for line in lines]
        self.assertEqual(len(stacks), len(set(stacks)), "a stack is one line")
        leaves = [analysis.name_of(stack.rsplit(";", 1)[-1]) for stack in stacks]
        self.assertIn("parse_date", leaves)

    def test_text_of_one_span(self):
        row = next(row for row in analysis.span_rows(self.rows) if analysis.kind_of(row) == 1)
        lines = harness.report(self.recording.files, "--span", row["span_id"]).splitlines()
        head = next(line for line in lines if line.startswith("span "))
        ids = f"span {row['span_id']}  trace {row['trace_id'][:16]}"
        self.assertRegex(head, rf"^{ids}.* ms on CPU .* samples at {FREQ} Hz$")
        self.assertIn(f"{harness.samples(row)} samples", head)
        first = lines[lines.index(head) + 1]
        self.assertRegex(first, r"^ +\d+ +\d+\.\d %  parse_date\(")
        self.assertNotIn("\x1b", "".join(lines), "no colour where there is no terminal")

    def test_report_is_deterministic(self):
        self.assertEqual(harness.report(self.recording.files), harness.report(self.recording.files))
