# SPDX-License-Identifier: Apache-2.0
"""What a recorder says, once, of a context map that does not serve, and of other recorders. (Present but empty, and
other shapes: test_context_map.)"""

import os
import re
import signal
import time

import analysis
import harness
import kernel

TRACE, SPAN = bytes.fromhex("0af7651916cd43dd8448eb211c80319c"), bytes.fromhex("53995c3f42cd8ad8")
POPULATE = "OTEL_EBPF_BPF_POPULATE_TRACE_CONTEXT=true"
IMPATIENT = {"SPANFOLD_TEST_PATIENCE_NS": "1000000000"}


class Diagnosis(harness.StageCase):
    def setUp(self):
        self.stage.new_bpffs()

    def start(self, name, *options):
        running = self.stage.start_workload(name, *options)
        self.addCleanup(running.stop, signal.SIGKILL)
        return running

    def background(self):
        return self.start("family", "--mode", "background", "--ms", "30000")

    def writer(self):
        running = self.stage.start_writer(binaries=["known"])
        self.addCleanup(running.stop)

    def pin_map(self):
        self.stage.ctx_map.parent.mkdir()
        fd = kernel.create_map()
        kernel.pin(fd, self.stage.ctx_map)
        os.close(fd)

    def record(self, *options, seconds="2.5"):
        return self.stage.record("-F", "499", "-d", seconds, "--flush", "500ms", *options, env=IMPATIENT).check()

    def check_said_once(self, pattern, stderr):
        lines = re.findall(rf"^.*{pattern}.*$", stderr, re.MULTILINE)
        self.assertEqual(len(lines), 1, stderr)
        self.assertIn(POPULATE, lines[0])
        return lines[0]

    def test_map_that_stands_still(self):
        self.pin_map()
        burner = self.background()
        entries = kernel.ContextMap(self.stage.ctx_map)
        entries.set(burner.pid, burner.pid, TRACE, SPAN)
        entries.set(1, 1, TRACE, SPAN)
        entries.close()
        recording = self.record("-p", burner.pid)
        self.assertGreater(recording.accounting.in_span, 100)
        self.check_said_once(r"has 2 entries, unchanged for 1 s: is OBI still running", recording.stderr)

    def test_map_that_lives(self):
        self.writer()
        self.start("known", "--seconds", "30")
        recording = self.record()
        self.assertGreater(recording.accounting.in_span, 100)
        self.assertNotIn("unchanged", recording.stderr)

    def test_filled_for_others_only(self):
        self.pin_map()
        burner = self.background()
        entries = kernel.ContextMap(self.stage.ctx_map)
        entries.set(1, 1, TRACE, SPAN)
        entries.close()
        recording = self.record("-p", burner.pid, seconds="1")
        self.assertEqual(recording.stderr.count("has entries, but none for the threads"), 1, recording.stderr)

    def test_some_processes_have_no_spans(self):
        self.writer()
        known, stranger = self.start("known", "--seconds", "30"), self.background()
        recording = self.record("-p", f"{known.pid},{stranger.pid}", seconds="2")
        line = self.check_said_once("busy, but never in a span", recording.stderr)
        self.assertIn(f"family (pid {stranger.pid})", line)
        self.assertNotIn("known", line)

    def test_all_processes_have_spans(self):
        self.writer()
        known = self.start("known", "--seconds", "30")
        self.assertNotIn("never in a span", self.record("-p", known.pid, seconds="1").stderr)


class Neighbours(harness.StageCase):
    ANOTHER = "another spanfold"

    def begin(self):
        running = self.stage.begin_record("-d", "30")
        kernel.await_recorder(running.pid)
        time.sleep(0.5)
        return running

    def test_second_recorder_says_so(self):
        first = self.begin()
        second = self.stage.record("-F", "499", "-d", "1").check()
        words = f"{self.ANOTHER} (pid {first.pid}) records on this host too"
        self.assertEqual(second.stderr.count(words), 1, second.stderr)
        first.send(signal.SIGTERM)
        recording = self.stage.finish(first).check()
        self.assertNotIn(self.ANOTHER, recording.stderr)

    def test_killed_recorder_is_none(self):
        self.begin().stop(signal.SIGKILL)
        self.assertNotIn(self.ANOTHER, self.stage.record("-d", "500ms").check().stderr)

    def test_samples_are_each_recorders_own(self):
        writer = self.stage.start_writer(binaries=["known"])
        load = self.stage.start_workload("known", "--seconds", "30")
        both = [self.stage.begin_record("-F", "499", "-d", "2", "-p", load.pid) for _ in range(2)]
        for running in both:
            recording = self.stage.finish(running).check()
            analysis.check_right_spans(recording.rows(), analysis.KNOWN)
            self.assertGreater(recording.accounting.in_span, 50)
        load.stop(signal.SIGKILL)
        writer.stop()
