# SPDX-License-Identifier: Apache-2.0
"""Writer, service and recorder in pid, mount and time namespaces of their own: the same spans, counts and windows."""

import signal
import statistics
import subprocess
import time
import unittest

import analysis
import harness

OWN_PIDS = ["unshare", "--pid", "--mount-proc", "--kill-child"]
AHEAD_S = 100_000
OWN_CLOCK = ["unshare", "-T", "--boottime", str(AHEAD_S), "--"]
FREQ = 499


class NamespaceCase(harness.StageCase):
    def record_in(self, prefix, *options, output):
        """Begins `record` behind the words of `prefix`."""
        where = self.stage.folder / output
        words = [harness.SPANFOLD, "record", "--ctx-map", self.stage.ctx_map, "-F", FREQ, "-o", where, *options]
        running = self.stage.start(*prefix, *words)
        running.output = where
        return running

    def record_beside(self, prefix, *options, names):
        """Two recordings at one time, on the host and behind `prefix`."""
        both = [self.record_in(words, *options, output=name) for words, name in zip(([], prefix), names)]
        return [self.stage.finish(running).check() for running in both]

    def check_alike(self, one, other):
        """The same spans but for those at the edges, with about the same samples."""
        sums = []
        for recording in (one, other):
            rows = analysis.span_rows(recording.rows())
            sums.append({(row["span_id"], row["pid"]): harness.samples(row) for row in rows})
        shared = sums[0].keys() & sums[1].keys()
        self.assertGreaterEqual(len(shared), 2)
        for key in shared:
            self.assertLess(abs(sums[0][key] - sums[1][key]), 0.25 * sums[0][key] + 15, key)
        # Spans are numbered as they come: those between the first and the last that both saw are of both.
        numbers = [int(span_id[2:], 16) for span_id, _ in shared]
        for left, right in (sums, sums[::-1]):
            within = {key: count for key, count in left.items() if min(numbers) < int(key[0][2:], 16) < max(numbers)}
            only = sum(within[key] for key in within.keys() - right.keys())
            self.assertLessEqual(only, 0.25 * sum(within.values()), "samples in spans that the other does not know")


class Pids(NamespaceCase):
    @classmethod
    def set_up_stage(cls):
        command = harness.workload("writer", "--binary", harness.WORKLOADS / "known", "--ctx-map", cls.stage.ctx_map)
        cls.stage.start(*OWN_PIDS, *command, ready="ready")
        cls.load = cls.stage.start(*OWN_PIDS, *harness.workload("known", "--seconds", "60"))
        time.sleep(0.5)
        children = harness.run("pgrep", "-P", cls.load.pid)[1].split()
        cls.host_pid = int(children[0])

    def test_host_sees_the_service_by_its_own_numbers(self):
        recording = self.stage.record("-F", FREQ, "-d", "2", "-p", self.host_pid).check()
        rows = recording.rows()
        analysis.check_right_spans(rows, analysis.KNOWN)
        self.assertEqual({row["pid"] for row in analysis.span_rows(rows)}, {self.host_pid})
        self.assertTrue(analysis.names_in(rows) & {"parse_date", "sum_cart"})
        self.assertGreater(recording.accounting.in_span, 50)

    def test_recorder_in_a_namespace_of_its_own(self):
        host, inside = self.record_beside(OWN_PIDS, "-d", "2", names=("host.otlp", "inside.otlp"))
        self.check_alike(host, inside)
        self.assertEqual(inside.stderr.count("not the host's pid namespace"), 1, inside.stderr)
        self.assertNotIn("not the host's pid namespace", host.stderr)

    def test_numbers_of_another_namespace_are_refused(self):
        running = self.record_in(OWN_PIDS, "-p", "1", output="refused.otlp")
        self.assertEqual(running.wait(), 3)
        self.assertRegex(running.err(), r"not the host's pid namespace.*hostPID")


class Clocks(NamespaceCase):
    @classmethod
    def set_up_stage(cls):
        if subprocess.run([*OWN_CLOCK, "true"], capture_output=True, check=False).returncode != 0:
            raise unittest.SkipTest("no time namespaces here")
        cls.stage.start_writer(binaries=["known"])
        cls.load = cls.stage.start_workload("known", "--seconds", "60")

    @classmethod
    def tearDownClass(cls):
        cls.load.stop(signal.SIGKILL)

    def test_recorder_with_a_shifted_boot_clock(self):
        began = time.time()
        host, inside = self.record_beside(OWN_CLOCK, "-d", "2", "--span-times", names=("outside.otlp", "shifted.otlp"))
        self.check_alike(host, inside)
        starts = [
            {row["span_id"]: int(row["start_unix_nano"]) for row in analysis.span_rows(recording.rows())}
            for recording in (host, inside)
        ]
        apart = [abs(starts[0][span] - starts[1][span]) for span in starts[0].keys() & starts[1].keys()]
        self.assertLess(statistics.median(apart), 20_000_000)
        for recording in (host, inside):
            window = harness.report_json(recording.files)["window"]
            start, seconds = int(window["start_unix_nano"]) / 1e9, window["duration_ns"] / 1e9
            self.assertGreater(start, began - 0.01)
            self.assertLess(start + seconds, time.time() + 0.01)
            self.assertGreater(seconds, 1.9)
            # Processes are known again by their start times, which /proc shows in the reader's clock.
            rows = recording.rows()
            analysis.check_right_spans(rows, analysis.KNOWN)
            self.assertTrue(analysis.names_in(rows) & {"parse_date", "sum_cart"})
