# SPDX-License-Identifier: Apache-2.0
"""What is left of the accounting when the loader is stopped, ended early or swamped. (Tiny stores: test_hammer.)"""

import signal
import time

import analysis
import harness


class Pressure(harness.StageCase):
    @classmethod
    def set_up_stage(cls):
        cls.stage.start_writer(binaries=["known", "many", "hammer"])

    def test_ten_thousand_spans_a_second(self):
        command = harness.workload("many", "--rate", "10000", "--seconds", "10")
        running = self.stage.begin_record("-F", "199", "--flush", "1", output="many/", command=command)
        sizes = []
        while running.running():
            sizes.append(harness.resident_kib(running.pid))
            time.sleep(0.5)
        recording = self.stage.finish(running).check()
        spans = int(recording.stdout.split()[1])
        self.assertGreater(spans, 60_000, "the machine did not keep up")
        self.assertEqual(recording.accounting.dropped, 0)
        self.assertGreaterEqual(len(recording.files), 8, "a file for each flush")
        analysis.check_right_spans(recording.rows(), {1: {"short_work"}})
        steady = [size for size in sizes[4:-1] if size]
        self.assertLess(max(steady) - steady[0], 1024, f"resident KiB, each half second: {sizes}")

    def test_stopped_for_ten_seconds(self):
        command = harness.workload("known", "--seconds", "12")
        running = self.stage.begin_record("-F", "499", "--flush", "1", output="stopped/", command=command)
        time.sleep(1.5)
        running.send(signal.SIGSTOP)
        time.sleep(10)
        running.send(signal.SIGCONT)
        recording = self.stage.finish(running).check()
        analysis.check_right_spans(recording.rows(), analysis.KNOWN)
        # The kernel folds on while the loader sleeps: 10 s of one thread fit its records and the ring.
        accounting = recording.accounting
        in_all = accounting.in_span + accounting.background
        analysis.check_count("samples", in_all, 12 * 499, accounting.missed, slack=0.03)

    def test_stopped_in_a_flood(self):
        """The ring fills up while nobody reads: samples are dropped, and each is counted."""
        command = harness.workload("hammer", "--threads", "2", "--ids", "own", "--pool", "40000", "--seconds", "6")
        env = {"SPANFOLD_TEST_RING_BYTES": "16384"}
        running = self.stage.begin_record("-F", "4000", "--flush", "1", output="flood/", command=command, env=env)
        time.sleep(1)
        running.send(signal.SIGSTOP)
        time.sleep(4)
        running.send(signal.SIGCONT)
        recording = self.stage.finish(running).check()
        self.assertGreater(recording.accounting.dropped, 0, "nothing was dropped: the test shows nothing")
        self.assertEqual(recording.stderr.count("the profile is incomplete: "), 1, "said once, with what helps")
        self.assertIn("--freq", recording.stderr)

    def test_ended_in_the_middle(self):
        load = self.stage.start_workload("known", "--seconds", "8")
        running = self.stage.begin_record("-F", "999", "--flush", "2")
        time.sleep(3)
        sent = time.monotonic()
        running.send(signal.SIGTERM)
        recording = self.stage.finish(running).check()
        self.assertLess(time.monotonic() - sent, 5)
        load.stop(signal.SIGKILL)
        analysis.check_right_spans(recording.rows(), analysis.KNOWN)
        self.assertGreater(recording.accounting.in_span, 200)

    def test_starts_at_once(self):
        delays = []
        for _ in range(5):
            running = self.stage.begin_record(command=["date", "+%s.%N"])
            recording = self.stage.finish(running).check()
            delays.append(float(recording.stdout) - running.started)
        print(f"\nfrom exec to the command's first instruction: {sorted(round(1000 * delay) for delay in delays)} ms")
        self.assertLess(min(delays), 0.3)
