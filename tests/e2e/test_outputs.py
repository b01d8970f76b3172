# SPDX-License-Identifier: Apache-2.0
"""Files, folders, pipes; and what signals leave of them."""

import re
import shutil
import signal
import subprocess
import time

import analysis
import harness


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

    def record_until(self, *signals, flush="5"):
        """Records 0.7 flushes at least, then sends the signals 50 ms apart."""
        running = self.stage.begin_record("-F", "999", "--flush", flush)
        time.sleep(1.5)
        sent = time.monotonic()
        for number in signals:
            running.send(number)
            time.sleep(0.05)
        recording = self.stage.finish(running, timeout=10).check()
        self.assertLess(time.monotonic() - sent, 5)
        self.assertGreater(recording.accounting.in_span, 100)
        analysis.check_right_spans(recording.rows(), analysis.KNOWN)
        self.check_no_part(recording)

    def test_term(self):
        self.record_until(signal.SIGTERM)

    def test_interrupt(self):
        self.record_until(signal.SIGINT)

    def test_second_signal_does_no_harm(self):
        self.record_until(signal.SIGTERM, signal.SIGTERM)
        self.record_until(signal.SIGINT, signal.SIGINT, signal.SIGTERM)

    def test_kill_leaves_what_was_flushed(self):
        before = self.stage.record("-d", "1", output="killed.otlp").check()
        bytes_before = before.output.read_bytes()
        running = self.stage.begin_record("-F", "999", "--flush", "500ms", output="killed.otlp")
        time.sleep(3)
        running.stop(signal.SIGKILL)
        self.assertEqual(before.output.read_bytes(), bytes_before, "the file of before is as it was")
        part = before.output.with_name("killed.otlp.part")
        figures = harness.file_accounting(part)
        self.assertGreater(figures["in_span"], 500)
        self.assertFalse(harness.otlp.validate(part))
        pins = [path for path in self.stage.bpffs.rglob("*") if path.is_file() and path.suffix != ".debug"]
        self.assertEqual(pins, [self.stage.ctx_map])
        self.check_nothing_is_loaded(running.pid)
        self.stage.record("-d", "500ms", output="killed.otlp").check()

    def check_nothing_is_loaded(self, pid):
        tool = shutil.which("bpftool") or "/usr/sbin/bpftool"
        end = time.monotonic() + 10
        while True:
            shown = subprocess.run([tool, "prog", "show"], capture_output=True, text=True, check=True).stdout
            # bpftool names the processes that hold a program.
            if not re.search(rf"\({pid}\)", shown):
                return
            self.assertLess(time.monotonic(), end, f"programs of {pid} outlive it:\n{shown}")
            time.sleep(0.2)

    def test_killed_target(self):
        running = self.stage.begin_record("-F", "499", "-d", "3", "-p", self.load.pid)
        time.sleep(1.5)
        self.load.send(signal.SIGKILL)
        recording = self.stage.finish(running, timeout=10).check()
        rows = analysis.span_rows(recording.rows())
        self.assertEqual({row["pid"] for row in rows}, {self.load.pid})
        analysis.check_right_spans(rows, analysis.KNOWN)
