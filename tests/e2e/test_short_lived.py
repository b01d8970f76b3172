# SPDX-License-Identifier: Apache-2.0
"""Processes that are gone before anybody looks at them, pids and addresses that stand for one program after another."""

import collections
import os
import re
import signal

import analysis
import harness

FREQ = 997
WORK = {1: {"brief_work"}, 2: {"decoy_work"}}
# For what a busy host does while the loader is stopped.
ROOM = 2 << 20
PATIENCE = 300  # seconds, of an emulated machine
# A frame that has no name, in a file of the workload's or in none. Not so libc's start: no symbol table has that.
UNNAMED = re.compile(r"^(?:(?:brief|decoy|copy-\d+)\+0x[0-9a-f]+|0x[0-9a-f]+|\[unknown\])$")


class ShortLived(harness.StageCase):
    def brief(self, *options):
        return harness.workload("brief", "--ctx-map", self.stage.ctx_map, "--folder", self.stage.folder, *options)

    def check_names(self, recording, processes, kinds=WORK, share=0.95):
        """Every process has its span, nearly all samples the work of it, and no frame a name that is not its own."""
        rows = recording.rows()
        counts = analysis.check_right_spans(rows, kinds)
        spans = {row["span_id"] for row in analysis.span_rows(rows)}
        self.assertGreater(len(spans), 0.95 * processes, recording.stderr)
        total = sum(sum(kind.values()) for kind in counts.values())
        named = total - sum(kind[None] for kind in counts.values())
        frames = collections.Counter()
        for row in analysis.span_rows(rows):
            for stack in row["stacks"]:
                for frame in stack["frames"]:
                    frames[UNNAMED.match(frame) is not None] += stack["count"]
        print(f"\n{named} of {total} samples and {frames[False]} of {frames.total()} frames named, {len(spans)} spans")
        self.assertGreaterEqual(named, share * total)
        self.assertGreaterEqual(frames[False], share * frames.total())

    def record_blind(self, *options, ring_bytes=ROOM):
        """Records while the loader is stopped: when it goes on, all processes are gone."""
        env = {"SPANFOLD_TEST_TASK_BYTES": str(ring_bytes)}
        go = self.stage.folder / f"go-{self.id()}"
        command = self.brief("--go", go, *options)
        running = self.stage.begin_record("-F", FREQ, "-v", command=command, env=env)
        running.await_line("ready", timeout=PATIENCE)
        running.send(signal.SIGSTOP)
        go.touch()
        running.await_line("programs", timeout=PATIENCE)
        running.send(signal.SIGCONT)
        return self.stage.finish(running, PATIENCE).check()

    def test_a_thousand_of_20_ms(self):
        command = self.brief("--processes", "1000", "--ms", "20", "--at-once", "4")
        recording = self.stage.record("-F", FREQ, command=command, timeout=PATIENCE).check()
        self.check_names(recording, 1000)

    def test_two_hundred_of_50_ms_and_a_long_flush(self):
        command = self.brief("--processes", "200", "--ms", "50", "--at-once", "4")
        recording = self.stage.record("-F", FREQ, "--flush", "10", command=command, timeout=PATIENCE).check()
        self.check_names(recording, 200)

    def test_gone_before_anybody_looks(self):
        for mode in ("exec", "fork"):
            with self.subTest(mode=mode):
                recording = self.record_blind("--mode", mode, "--processes", "60", "--ms", "20")
                self.check_names(recording, 60)

    def test_forked_by_who_was_there_before(self):
        go = self.stage.folder / "go-before"
        parent = self.stage.start(*self.brief("--mode", "fork", "--processes", "30", "--ms", "20", "--go", go,
                                              "--after-ms", "60000"), ready="ready")
        env = {"SPANFOLD_TEST_TASK_BYTES": str(ROOM)}
        running = self.stage.begin_record("-F", FREQ, "-v", "--flush", "1", env=env)
        running.await_error("debug: spent ")
        running.send(signal.SIGSTOP)
        go.touch()
        parent.await_line("programs", timeout=PATIENCE)
        running.stop(signal.SIGINT, PATIENCE)
        parent.stop(signal.SIGKILL)
        recording = harness.Recording(running, 0, running.output).check()
        self.check_names(recording, 30)

    def test_programs_follow_each_other_in_one_process(self):
        options = ("--processes", "4", "--ms", "20", "--chain", "9", "--fixed", "1")
        self.check_names(self.record_blind(*options), 40)

    def test_one_pid_for_all(self):
        if not os.access("/proc/sys/kernel/ns_last_pid", os.W_OK):
            self.skipTest("this kernel lets nobody choose the next pid")
        self.check_names(self.record_blind("--mode", "reuse", "--processes", "40", "--ms", "20", "--fixed", "1"), 40)

    def test_files_that_are_gone_too(self):
        """While somebody looks, files are opened in time; names are right in any case."""
        command = self.brief("--mode", "copies", "--processes", "60", "--ms", "20")
        self.check_names(self.stage.record("-F", FREQ, command=command, timeout=PATIENCE).check(), 60)
        recording = self.record_blind("--mode", "copies", "--processes", "30", "--ms", "20")
        self.check_names(recording, 30, share=0)

    def test_a_ring_that_overflows(self):
        """What was told is not believed beyond a loss: no names, but no wrong ones."""
        options = ("--processes", "40", "--ms", "8", "--chain", "4", "--fixed", "1")
        recording = self.record_blind(*options, ring_bytes=8192)
        self.assertIn("not told in full", recording.stderr)
        self.check_names(recording, 200, share=0)
