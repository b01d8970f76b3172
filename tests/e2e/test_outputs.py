# SPDX-License-Identifier: Apache-2.0
"""Files, folders, pipes; and what signals leave of them."""

import os
import signal
import subprocess
import time

import analysis
import harness
import kernel


class OutputCase(harness.StageCase):
    def check_no_part(self, recording):
        parts = [path.name for path in self.stage.folder.glob(f"{recording.output.name}*.part")]
        self.assertFalse(parts)


class Outputs(OutputCase):
    @classmethod
    def set_up_stage(cls):
        cls.stage.start_writer(binaries=["known"])
        cls.known = harness.workload("known", "--seconds", "2.5")
        cls.folder = cls.stage.record("-F", "499", "--flush", "500ms", output="folder/", command=cls.known).check()

    def test_folder_holds_a_file_for_each_flush(self):
        self.assertGreaterEqual(len(self.folder.files), 4)
        odd = [path.name for path in self.folder.files if path.suffix != ".otlp" or path.name.startswith(".")]
        self.assertFalse(odd)
        self.assertIn(f"{len(self.folder.files)} files", self.folder.accounting.rest)

    def test_each_file_of_a_folder_explains_itself(self):
        for path in self.folder.files:
            with self.subTest(file=path.name):
                rows = harness.report_json([path], "--by", "span")["rows"]
                analysis.check_right_spans(rows, analysis.KNOWN)
                self.assertTrue(analysis.names_in(rows) & {"parse_date", "sum_cart", "render_page"}, "names of its own")

    def test_folder_is_read_as_one(self):
        options = ["--format", "folded", "--top", harness.EVERYTHING]
        merged = harness.report([self.folder.output], *options)
        self.assertEqual(merged, harness.report(self.folder.files, *options))

    def test_quiet_windows(self):
        """Flushes without a sample, in the middle and at the end: their accounting goes into the next message."""
        known = harness.WORKLOADS / "known"
        script = f"{known} --seconds 0.5; sleep 1; {known} --seconds 0.5; sleep 1"
        for output in ("quiet.otlp", "quiet/"):
            with self.subTest(output=output):
                options = ["-F", "499", "--flush", "200ms"]
                recording = self.stage.record(*options, output=output, command=["sh", "-c", script]).check()
                analysis.check_right_spans(recording.rows(), analysis.KNOWN)

    def test_single_file_of_many_flushes(self):
        recording = self.stage.record("-F", "499", "--flush", "250ms", command=self.known).check()
        self.assertEqual(recording.files, [recording.output])
        analysis.check_right_spans(recording.rows(), analysis.KNOWN)
        self.check_no_part(recording)

    def test_previous_file_is_kept(self):
        first = self.stage.record(output="again.otlp", command=["true"]).check()
        bytes_before = first.output.read_bytes()
        self.stage.record(output="again.otlp", command=self.known).check()
        old = first.output.with_name("again.otlp.old")
        self.assertEqual(old.read_bytes(), bytes_before)
        self.assertNotEqual(first.output.read_bytes(), bytes_before)

    def test_pipe(self):
        out = self.stage.folder / "piped.otlp"
        load = self.stage.start(*self.known)
        with out.open("wb") as sink:
            reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=sink)
            options = ["-F", "499", "-d", "2", "--flush", "500ms", "-o", "-"]
            running = self.stage.start_spanfold("record", *options, stdout=reader.stdin)
            reader.stdin.close()
            running.output = out
            recording = self.stage.finish(running)
            self.assertEqual(reader.wait(10), 0)
        load.wait()
        recording.files = [out]
        recording.check()
        analysis.check_right_spans(recording.rows(), analysis.KNOWN)

    def test_pipe_that_closes(self):
        reader = subprocess.Popen(["true"], stdin=subprocess.PIPE)
        options = ["-d", "3", "--flush", "500ms", "-o", "-"]
        running = self.stage.start_spanfold("record", *options, stdout=reader.stdin)
        reader.stdin.close()
        reader.wait()
        self.assertEqual(running.wait(15), 1)
        self.assertRegex(running.err(), r"(?m)^spanfold: error: .*standard output")


class Signals(OutputCase):
    @classmethod
    def set_up_stage(cls):
        cls.stage.start_writer(binaries=["known"])

    def setUp(self):
        self.load = self.stage.start_workload("known", "--seconds", "30")

    def tearDown(self):
        self.load.stop(signal.SIGKILL)

    def record_until(self, *signals):
        """Records for 0.7 flushes, then sends the signals 50 ms apart."""
        running = self.stage.begin_record("-F", "999", "--flush", "2")
        kernel.await_recorder(running.pid)
        time.sleep(0.7 * 2)
        sent = time.monotonic()
        for number in signals:
            running.send(number)
            time.sleep(0.05)
        running.wait(10)
        self.assertLess(time.monotonic() - sent, 5)
        recording = self.stage.finish(running).check()
        self.assertGreater(recording.accounting.in_span, 50)
        analysis.check_right_spans(recording.rows(), analysis.KNOWN)
        self.check_no_part(recording)

    def test_term(self):
        self.record_until(signal.SIGTERM)

    def test_interrupt(self):
        self.record_until(signal.SIGINT)

    def test_second_signal_does_no_harm(self):
        self.record_until(signal.SIGTERM, signal.SIGTERM)
        self.record_until(signal.SIGINT, signal.SIGINT, signal.SIGTERM)

    def test_interrupt_of_the_group(self):
        """As a terminal sends it: the command ends by it too, and what it ran is written."""
        where = self.stage.folder / "group.otlp"
        words = ["record", "--ctx-map", self.stage.ctx_map, "-F", "999", "-o", where]
        command = harness.workload("known", "--seconds", "20")
        # `setsid` becomes what it runs, in a group of its own.
        running = self.stage.start("setsid", harness.SPANFOLD, *words, "--", *command)
        kernel.await_recorder(running.pid)
        kernel.await_cpu(running.pid, 1)
        sent = time.monotonic()
        os.killpg(running.pid, signal.SIGINT)
        code = running.wait(10)
        self.assertLess(time.monotonic() - sent, 5)
        recording = harness.Recording(running, code, where).check(128 + signal.SIGINT)
        self.assertGreater(recording.accounting.in_span, 50)
        analysis.check_right_spans(recording.rows(), analysis.KNOWN)
        self.check_no_part(recording)

    def test_kill_leaves_what_was_flushed(self):
        before = self.stage.record("-d", "1", output="killed.otlp").check()
        bytes_before = before.output.read_bytes()
        running = self.stage.begin_record("-F", "999", "--flush", "500ms", output="killed.otlp")
        time.sleep(3)
        programs = kernel.programs_of(running.pid)
        running.stop(signal.SIGKILL)
        self.assertEqual(before.output.read_bytes(), bytes_before, "the file of before is as it was")
        part = before.output.with_name("killed.otlp.part")
        figures = harness.file_accounting(part)
        self.assertGreater(figures["in_span"], 500)
        self.assertFalse(harness.otlp.validate(part))
        pins = [path for path in self.stage.bpffs.rglob("*") if path.is_file() and path.suffix != ".debug"]
        self.assertEqual(pins, [self.stage.ctx_map])
        self.check_nothing_is_loaded(programs)
        self.stage.record("-d", "500ms", output="killed.otlp").check()

    def check_nothing_is_loaded(self, programs):
        """A perf event holds its program, so that one that outlived the recorder would show here."""
        self.assertTrue(programs)
        end = time.monotonic() + 10
        while left := {each for each in programs if kernel.is_loaded(each)}:
            self.assertLess(time.monotonic(), end, f"programs {left} outlive the recorder")
            time.sleep(0.1)

    def test_killed_target(self):
        running = self.stage.begin_record("-F", "499", "-d", "3", "-p", self.load.pid)
        time.sleep(1.5)
        self.load.send(signal.SIGKILL)
        recording = self.stage.finish(running, timeout=10).check()
        rows = analysis.span_rows(recording.rows())
        self.assertEqual({row["pid"] for row in rows}, {self.load.pid})
        analysis.check_right_spans(rows, analysis.KNOWN)
