# SPDX-License-Identifier: Apache-2.0
"""The pinned context map: who makes it, what shapes will do, and that samples say what it says, no more and no less."""

import collections
import os
import signal
import time

import analysis
import harness
import kernel

OBI_SHAPE = (kernel.LRU_HASH, 8, 24, 16384, 0)  # type, key, value, entries, flags
TRACE, SPAN = bytes.fromhex("0af7651916cd43dd8448eb211c80319c"), bytes.fromhex("53995c3f42cd8ad8")
EMPTY_HINT = "and empty: none of"


def without_id(shape):
    return shape[:1] + shape[2:]


class ContextMapCase(harness.StageCase):
    def setUp(self):
        self.stage.new_bpffs()

    def pin(self, make):
        self.stage.ctx_map.parent.mkdir()
        fd = make()
        kernel.pin(fd, self.stage.ctx_map)
        os.close(fd)

    def background(self, milliseconds):
        return self.stage.start_workload("family", "--mode", "background", "--ms", str(milliseconds))

    def set_context(self, running):
        entries = kernel.ContextMap(self.stage.ctx_map)
        entries.set(running.pid, running.pid, TRACE, SPAN)
        entries.close()


class WhoMakesIt(ContextMapCase):
    def test_recorder_first_makes_obis_map(self):
        record = self.stage.begin_record("-F", "499")
        end = time.monotonic() + 10
        while not self.stage.ctx_map.exists() and time.monotonic() < end:
            time.sleep(0.05)
        before = kernel.pinned_shape(self.stage.ctx_map)
        self.assertEqual(without_id(before), OBI_SHAPE)
        writer = self.stage.start_writer(binaries=["known"])
        self.stage.start_workload("known", "--seconds", "1").wait()
        record.send(signal.SIGTERM)
        recording = self.stage.finish(record).check()
        writer.stop()
        self.assertEqual(kernel.pinned_shape(self.stage.ctx_map), before, "one map, neither replaced nor removed")
        analysis.check_right_spans(recording.rows(), analysis.KNOWN)
        self.assertGreater(recording.accounting.in_span, 100)

    def test_writer_first_is_adopted(self):
        writer = self.stage.start_writer(binaries=["known"])
        before = kernel.pinned_shape(self.stage.ctx_map)
        recording = self.stage.record("-F", "499", command=harness.workload("known", "--seconds", "1")).check()
        writer.stop()
        self.assertEqual(kernel.pinned_shape(self.stage.ctx_map), before)
        self.assertGreater(recording.accounting.in_span, 100)

    def test_pin_outlives_both(self):
        self.stage.record(command=["true"]).check()
        self.assertEqual(without_id(kernel.pinned_shape(self.stage.ctx_map)), OBI_SHAPE)
        pins = [path.name for path in self.stage.ctx_map.parent.iterdir()]
        self.assertEqual(pins, ["traces_ctx_v1"], "no pins of the recorder's own")


class Empty(ContextMapCase):
    def test_empty_map_is_said_once(self):
        writer = self.stage.start_writer("--no-write", binaries=["known"])
        command = harness.workload("known", "--seconds", "3")
        recording = self.stage.record("-F", "499", "--flush", "1", command=command).check()
        writer.stop()
        self.assertEqual(recording.accounting.in_span, 0)
        self.assertGreater(recording.accounting.background, 1000)
        self.assertEqual(recording.stderr.count(EMPTY_HINT), 1, recording.stderr)
        self.assertIn("OTEL_EBPF_BPF_POPULATE_TRACE_CONTEXT=true", recording.stderr, "the remedy")

    def test_entry_made_half_way_is_seen(self):
        self.pin(kernel.create_map)
        burner = self.background(4000)
        record = self.stage.begin_record("-F", "499", "-p", burner.pid, "-d", "4")
        time.sleep(2)
        self.set_context(burner)
        recording = self.stage.finish(record).check()
        burner.stop(signal.SIGKILL)
        (row,) = analysis.span_rows(recording.rows())
        self.assertEqual((row["trace_id"], row["span_id"]), (TRACE.hex(), SPAN.hex()))
        self.assertGreater(harness.samples(row), 100)
        self.assertGreater(recording.accounting.background, 100)

    def test_entry_that_is_too_old_counts_as_outside(self):
        self.pin(kernel.create_map)
        burner = self.background(8000)
        self.set_context(burner)
        options = ["-F", "499", "-p", burner.pid, "-d", "2", "--max-span-age", "500ms"]
        recording = self.stage.record(*options).check()
        burner.stop(signal.SIGKILL)
        accounting = recording.accounting
        self.assertGreater(accounting.in_span, 10)
        self.assertLess(accounting.in_span, 0.5 * 499 * 1.3)
        self.assertGreater(accounting.background, accounting.in_span)

    def test_used_map_is_not_complained_about(self):
        self.pin(kernel.create_map)
        burner = self.background(3000)
        self.set_context(burner)
        recording = self.stage.record("-F", "499", "-d", "1").check()
        burner.stop(signal.SIGKILL)
        self.assertNotIn(EMPTY_HINT, recording.stderr)


class Shapes(ContextMapCase):
    def check_serves(self, **shape):
        self.pin(lambda: kernel.create_map(**shape))
        before = kernel.pinned_shape(self.stage.ctx_map)
        burner = self.background(5000)
        self.set_context(burner)
        recording = self.stage.record("-F", "499", "-p", burner.pid, "-d", "1").check()
        burner.stop(signal.SIGKILL)
        (row,) = analysis.span_rows(recording.rows())
        self.assertEqual((row["trace_id"], row["span_id"]), (TRACE.hex(), SPAN.hex()))
        self.assertEqual(kernel.pinned_shape(self.stage.ctx_map), before)

    def check_refused(self, expected, found):
        burner = self.background(5000)
        recording = self.stage.record("-F", "499", "-p", burner.pid, "-d", "1").check()
        burner.stop(signal.SIGKILL)
        self.assertEqual(recording.accounting.in_span, 0)
        self.assertGreater(recording.accounting.background, 100, "the run goes on without spans")
        lines = recording.stderr.splitlines()
        problem = [line for line in lines if str(self.stage.ctx_map) in line and "expected" in line]
        self.assertEqual(len(problem), 1, recording.stderr)
        self.assertRegex(problem[0], rf"expected .*{expected}.*found .*{found}")
        self.assertNotIn(EMPTY_HINT, recording.stderr, "one cause, one message")

    def test_few_entries(self):
        self.check_serves(entries=3000)

    def test_wider_value(self):
        self.check_serves(value=32)

    def test_plain_hash(self):
        self.check_serves(kind=kernel.HASH)

    def test_narrow_value(self):
        self.pin(lambda: kernel.create_map(value=16))
        before = kernel.pinned_shape(self.stage.ctx_map)
        self.check_refused("24", "16")
        self.assertEqual(kernel.pinned_shape(self.stage.ctx_map), before)

    def test_narrow_key(self):
        self.pin(lambda: kernel.create_map(key=4))
        before = kernel.pinned_shape(self.stage.ctx_map)
        self.check_refused("8", "4")
        self.assertEqual(kernel.pinned_shape(self.stage.ctx_map), before)

    def test_program_in_its_place(self):
        self.pin(kernel.load_program)
        self.check_refused("map", "prog")
        self.assertTrue(self.stage.ctx_map.exists())


class WhatItSays(ContextMapCase):
    """The recorder invents nothing: the entry at the interrupt decides."""

    def known(self, fault, *options):
        writer = self.stage.start_writer(*fault, binaries=["known"])
        truth = self.stage.folder / "truth.jsonl"
        command = harness.workload("known", "--truth", truth, *options)
        recording = self.stage.record("-F", "999", command=command).check()
        writer.stop()
        return recording, harness.read_lines(truth)

    def test_forgotten_delete(self):
        options = ["--spans", "1", "--span-ms", "500", "--gap-ms", "1500"]
        recording, _ = self.known(["--forget-delete"], *options)
        (row,) = analysis.span_rows(recording.rows())
        counts = analysis.work_counts(row, {"parse_date", "parse_number", "poll_for_work"})
        missed = recording.accounting.missed
        analysis.check_count("parse_date", counts["parse_date"], 350 * 0.999, missed)
        analysis.check_count("after the span", counts["poll_for_work"], 1500 * 0.999, missed)

    def test_parent_wiped_by_its_child(self):
        options = ["--spans", "3", "--span-ms", "1000", "--gap-ms", "0"]
        recording, _ = self.known(["--forget-parent"], *options)
        counts = analysis.check_right_spans(recording.rows(), analysis.KNOWN)
        missed = recording.accounting.missed
        analysis.check_count("render_page before its child", counts[3]["render_page"], 300 * 0.999, missed)
        analysis.check_count("compress_body", counts[4]["compress_body"], 400 * 0.999, missed)
        analysis.check_count("after its child", recording.accounting.background, 300 * 0.999, missed, slack=0.05)

    def test_many_tasks_on_one_thread(self):
        self.pin(kernel.create_map)
        options = ["--ctx-map", self.stage.ctx_map, "--seconds", "4", "--unlinked-seconds", "1"]
        command = harness.workload("eventloop", *options)
        recording = self.stage.record("-F", "999", command=command).check()
        number_of = {f"task_work<{number}>": number for number in range(200)}
        behind = collections.Counter()
        for row in analysis.span_rows(recording.rows()):
            for name, count in analysis.work_counts(row, number_of.keys() | {"unlinked_work"}).items():
                behind[(analysis.kind_of(row) - 1 - number_of[name]) % 200 if name in number_of else 0] += count
        total = sum(behind.values())
        # The helper writes first and then tells the loop: for microseconds (or a while, where the loop's thread had to
        # wait for a CPU) an earlier function still runs. An id older than the function is one that somebody remembered.
        self.assertFalse([steps for steps in behind if steps > 100], "ids that were no longer there at the interrupt")
        self.assertGreater(behind[0], 0.95 * total)
        accounting = recording.accounting
        cpu_ns = int(recording.stdout.split()[1])
        analysis.check_count("samples", total + accounting.background, cpu_ns * 0.999e-6, accounting.missed, slack=0.05)
        self.assertGreater(accounting.background, 0.1 * total, "the deleted entry leaves samples without a span")

    def test_exec_splits_a_process(self):
        self.stage.start_writer(binaries=["family", "known"])
        # 3 s of the thread's CPU, of which it has used 1: exec does not reset that clock.
        then = ["--then", harness.WORKLOADS / "known", "--then-arg", "3"]
        command = harness.workload("family", "--mode", "exec", "--ms", "1000", *then)
        recording = self.stage.record("-F", "999", "--flush", "1", command=command).check()
        rows = {row["span_id"]: row for row in analysis.span_rows(recording.rows())}
        others = {"parent_work", "forked_work", "execed_work", "short_work", "background_work"}
        self.assertFalse(analysis.names_in(rows.values()) & others, "frames named by the wrong program")
        before = next(row for span, row in rows.items() if span.startswith("05"))
        counts = analysis.work_counts(before, {"before_exec", "poll_for_work"})
        analysis.check_count("before exec", counts["before_exec"], 999, recording.accounting.missed)
        self.assertGreater(counts["poll_for_work"], 100, "the entry outlives exec, and the map decides")
        after = [row for span, row in rows.items() if not span.startswith("05")]
        analysis.check_right_spans(after, {**analysis.KNOWN, 5: {"before_exec"}})
        self.assertGreater(sum(map(harness.samples, after)), 500)
