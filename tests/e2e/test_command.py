# SPDX-License-Identifier: Apache-2.0
"""A command and its descendants, filters, durations, rates."""

import os
import signal
import time

import analysis
import harness
import kernel

FAMILY = {1: {"parent_work"}, 2: {"forked_work"}, 3: {"execed_work"}, 4: {"short_work"}}


class Command(harness.StageCase):
    @classmethod
    def set_up_stage(cls):
        cls.stage.start_writer(binaries=["family", "known"])

    def test_descendants_are_followed(self):
        stranger = self.stage.start_workload("family", "--mode", "background", "--ms", "3000")
        command = harness.workload("family", "--mode", "tree", "--children", "4", "--ms", "400")
        recording = self.stage.record("-F", "999", command=command).check()
        stranger.stop(signal.SIGKILL)
        counts = analysis.check_right_spans(recording.rows(), FAMILY)
        accounting = recording.accounting
        for kind, name, processes in ((1, "parent_work", 1), (2, "forked_work", 2), (3, "execed_work", 2)):
            analysis.check_count(name, counts[kind][name], 0.4 * 999 * processes, accounting.missed, slack=0.03)
        self.assertGreater(accounting.filtered, 0, "the stranger is not of the family")
        self.assertLess(accounting.background, 0.1 * accounting.in_span)

    def test_short_processes_are_counted_and_named(self):
        command = harness.workload("family", "--mode", "short", "--children", "30", "--ms", "50")
        recording = self.stage.record("-F", "999", command=command).check()
        counts = analysis.check_right_spans(recording.rows(), FAMILY)
        total = sum(counts[4].values())
        analysis.check_count("samples", total, 30 * 0.05 * 999, recording.accounting.missed, slack=0.04)
        self.assertGreater(counts[4]["short_work"], 0.9 * total, "named, though gone in 50 ms")

    def test_first_instruction_is_seen(self):
        command = harness.workload("family", "--mode", "background", "--ms", "500")
        accounting = self.stage.record("-F", "999", command=command).check().accounting
        analysis.check_count("samples", accounting.background, 0.5 * 999, accounting.missed, slack=0.05)

    def test_status_is_passed_through(self):
        for script, status in (("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)):
            with self.subTest(script=script):
                self.stage.record(command=["sh", "-c", script]).check(status)

    def test_command_that_is_not_there(self):
        for command in ("/nowhere/command", "no-such-command", "/etc/passwd"):
            with self.subTest(command=command):
                running = self.stage.begin_record(command=[command])
                self.assertEqual(running.wait(), 125)
                self.assertIn(command, running.err())

    def test_own_failure_is_125(self):
        running = self.stage.start_spanfold("record", "-o", "/nowhere/deep/file", "--", "true")
        self.assertEqual(running.wait(), 125)

    def test_output_of_the_command_is_its_own(self):
        recording = self.stage.record(command=["sh", "-c", "echo out; echo err >&2"]).check()
        self.assertEqual(recording.stdout, "out\n")
        self.assertIn("err\n", recording.stderr)

    def test_ended_by_a_signal_with_a_command(self):
        running = self.stage.begin_record("-F", "499", command=harness.workload("known", "--seconds", "20"))
        kernel.await_recorder(running.pid)
        kernel.await_cpu(running.pid, 1)
        running.send(signal.SIGTERM)
        code = running.wait(10)
        recording = harness.Recording(running, code, running.output).check(code)
        self.assertIn(code, (0, 128 + signal.SIGTERM))
        self.assertGreater(recording.accounting.in_span, 100)

    def test_duration_ends_before_the_command(self):
        running = self.stage.begin_record("-d", "1", command=harness.workload("known", "--seconds", "3"))
        code = running.wait(20)
        harness.Recording(running, code, running.output).check(code)


class Filters(harness.StageCase):
    @classmethod
    def set_up_stage(cls):
        cls.stage.start_writer(binaries=["known"])

    def setUp(self):
        self.first = self.start_known("2")
        self.second = self.start_known("3")

    def tearDown(self):
        for running in (self.first, self.second):
            running.stop(signal.SIGKILL)

    def start_known(self, seed):
        """Each with traces of its own: a span that two processes share belongs to neither."""
        return self.stage.start_workload("known", "--seconds", "30", "--seed", seed)

    def pids(self, recording):
        return {row["pid"] for row in analysis.span_rows(recording.rows())}

    def test_one_process(self):
        recording = self.stage.record("-F", "499", "-d", "1", "-p", self.first.pid).check()
        self.assertEqual(self.pids(recording), {self.first.pid})
        self.assertGreater(recording.accounting.filtered, 0)

    def test_two_processes(self):
        both = f"{self.first.pid},{self.second.pid}"
        for options in (["-p", both], ["-p", self.first.pid, "--pid", self.second.pid]):
            with self.subTest(options=options):
                recording = self.stage.record("-F", "499", "-d", "1", *options).check()
                self.assertEqual(self.pids(recording), {self.first.pid, self.second.pid})

    def test_one_thread(self):
        recording = self.stage.record("-F", "499", "-d", "1", "-t", self.second.pid).check()
        self.assertEqual(self.pids(recording), {self.second.pid})

    def test_one_cpu(self):
        if os.cpu_count() < 2:
            self.skipTest("one CPU only")
        for running, cpu in ((self.first, 0), (self.second, 1)):
            os.sched_setaffinity(running.pid, {cpu})
        recording = self.stage.record("-F", "499", "-d", "1", "-C", "1").check()
        self.assertEqual(self.pids(recording), {self.second.pid})
        accounting = recording.accounting
        analysis.check_count("ticks of one CPU", accounting.ticks, 499, accounting.missed, slack=0.25)

    def test_no_filter_is_everything(self):
        recording = self.stage.record("-F", "499", "-d", "1").check()
        self.assertLessEqual({self.first.pid, self.second.pid}, self.pids(recording))
        self.assertEqual(recording.accounting.filtered, 0)

    def test_background_count(self):
        recording = self.stage.record("-F", "499", "-d", "1", "--background", "count", "-p", self.first.pid).check()
        self.assertGreater(recording.accounting.background, 0)

    def test_background_stacks(self):
        recording = self.stage.record("-F", "999", "-d", "2", "--background", "stacks", "-p", self.first.pid).check()
        unlinked = [row for row in recording.rows("span") if "span_id" not in row]
        self.assertIn("poll_for_work", analysis.names_in(unlinked))
        analysis.check_right_spans(recording.rows(), analysis.KNOWN)


class Lifecycle(harness.StageCase):
    """How ends of spans are seen: whatever way, samples are in the right spans."""

    @classmethod
    def set_up_stage(cls):
        cls.stage.start_writer(binaries=["known"])

    def record(self, mode):
        command = harness.workload("known", "--seconds", "1")
        return self.stage.record("-F", "999", "--lifecycle", mode, command=command)

    def test_auto_and_sweep(self):
        for mode in ("auto", "sweep"):
            with self.subTest(mode=mode):
                recording = self.record(mode).check()
                analysis.check_right_spans(recording.rows(), analysis.KNOWN)
                self.assertGreater(recording.accounting.in_span, 100)

    def test_fentry_is_refused_in_words_where_there_is_none(self):
        recording = self.record("fentry")
        if recording.code == 0:
            analysis.check_right_spans(recording.check().rows(), analysis.KNOWN)
            return
        self.assertEqual(recording.code, 125, recording.stderr)
        self.assertRegex(recording.stderr, r"(?m)^spanfold: error: .*fentry.*\(.*\)$")


class Clock(harness.StageCase):
    def test_durations(self):
        for text, seconds in (("1", 1), ("500ms", 0.5), ("2s", 2)):
            with self.subTest(duration=text):
                recording = self.stage.record("-d", text).check()
                self.assertGreaterEqual(recording.seconds, seconds)
                self.assertLess(recording.seconds, seconds + 3)

    def test_rates(self):
        cpus = len(os.sched_getaffinity(0))
        for freq in (49, 250, 1999):
            with self.subTest(freq=freq):
                accounting = self.stage.record("-F", freq, "-d", "2").check().accounting
                owed = 2 * freq * cpus
                self.assertGreater(accounting.ticks + accounting.missed, 0.75 * owed)
                self.assertLess(accounting.ticks, 1.35 * owed)

    def test_frequency_is_in_the_file(self):
        recording = self.stage.record("-F", "250", "-d", "1").check()
        self.assertEqual(harness.report_json(recording.files)["frequency_hz"], 250)

    def test_window_encloses_the_run(self):
        before = time.time_ns()
        recording = self.stage.record("-d", "1").check()
        window = harness.report_json(recording.files)["window"]
        start = int(window["start_unix_nano"])
        self.assertGreaterEqual(start, before - 10_000_000)
        self.assertLessEqual(start + window["duration_ns"], time.time_ns() + 10_000_000)
        self.assertGreaterEqual(window["duration_ns"], 900_000_000)

    def test_bpffs_is_mounted_where_there_is_none(self):
        """In a mount namespace of its own, so that the host's stays as it is."""
        script = 'umount -l /sys/fs/bpf 2>/dev/null; exec "$0" record -d 1 -o "$1"'
        out = self.stage.folder / "mounted.otlp"
        code, _, err = harness.run("unshare", "-m", "sh", "-c", script, harness.SPANFOLD, out)
        self.assertEqual(code, 0, err)
        self.assertIn("bpffs on /sys/fs/bpf", err)
        harness.Accounting(err).check()
