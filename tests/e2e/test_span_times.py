# SPDX-License-Identifier: Apache-2.0
"""Times of spans against the clock of the workload itself."""

import re
import statistics

import analysis
import harness

FREQ = 499
EXACT_NS = 100_000


class SpanTimes(harness.StageCase):
    @classmethod
    def set_up_stage(cls):
        cls.stage.start_writer(binaries=["known"])
        truth = cls.stage.folder / "truth.jsonl"
        command = harness.workload("known", "--seconds", "3", "--truth", truth)
        options = ["-F", FREQ, "--flush", "1", "--span-times"]
        cls.recording = cls.stage.record(*options, output="times/", command=command).check()
        cls.truth = {span["span_id"]: span for span in harness.read_lines(truth)}
        cls.rows = {row["span_id"]: row for row in analysis.span_rows(cls.recording.rows())}
        cls.hooked = not re.search(r"not by hooks|hooks? .*gave? up|gave up the hooks", cls.recording.stderr)

    def test_no_span_is_invented(self):
        self.assertLessEqual(self.rows.keys(), self.truth.keys())
        self.assertGreater(len(self.rows), 0.9 * len(self.truth))

    def test_times_lie_within_the_span(self):
        for span_id, row in self.rows.items():
            with self.subTest(span=span_id):
                truth = self.truth[span_id]
                start, end = int(row["start_unix_nano"]), int(row["end_unix_nano"])
                self.assertGreaterEqual(start, int(truth["start_unix_nano"]) - EXACT_NS)
                self.assertLessEqual(end, int(truth["end_unix_nano"]) + EXACT_NS)
                self.assertGreaterEqual(row["stays"], 1)
                self.assertGreater(row["on_thread_ns"], 0)
                self.assertLessEqual(row["on_thread_ns"], end - start)

    def test_times_are_those_of_the_hooks(self):
        if not self.hooked:
            self.skipTest("ends of spans are seen by samples here")
        self.assertEqual(self.rows.keys(), self.truth.keys())
        for key in ("start_unix_nano", "end_unix_nano"):
            apart = [abs(int(row[key]) - int(self.truth[span_id][key])) for span_id, row in self.rows.items()]
            # The workload reads its clock some calls before the span begins, and some after it ends.
            self.assertLess(statistics.median(apart), 500_000, key)
        self.assertGreater(sum(row["ended"] for row in self.rows.values()), 0.9 * len(self.truth))

    def test_without_the_option_there_are_none(self):
        recording = self.stage.record("-F", FREQ, command=harness.workload("known", "--seconds", "0.5")).check()
        self.assertFalse([row for row in recording.rows() if "on_thread_ns" in row])
