# SPDX-License-Identifier: Apache-2.0
"""A span's life at length: 100,000 spans against the log of their workload, also where hooks are missed, and a minute
at full speed. Run by scripts/vm-lifecycle.sh under other kernels, or by hand on a host whose kernel takes hooks:
`python3 -m unittest hold_lifecycle`. SPANS and SECONDS say how much; each run prints a row of figures. With VM_OUT the
recordings go there and are not looked at, which takes long under emulation: `hold_lifecycle.py compare FOLDER` does."""

import json
import os
import pathlib
import re
import shutil
import signal
import sys
import time
import unittest

import analysis
import harness
import kernel
import lifecycle
import test_lifecycle

SPANS = int(os.environ.get("SPANS", 100_000))
SECONDS = int(os.environ.get("SECONDS", 60))
CPUS = len(os.sched_getaffinity(0))


def preemption():
    words = re.findall(r"preempt=(\w+)", pathlib.Path("/proc/cmdline").read_text())
    return words[-1] if words else "as built"


def head(what):
    return {"kernel": os.uname().release.split("+")[0], "preempt": preemption(), "what": what}


def row(head_of_it, **figures):
    """A row of the table that scripts/vm-lifecycle.sh prints."""
    print("ROW " + json.dumps({**head_of_it, **figures}), flush=True)


class Held(unittest.TestCase):
    """A recording beside the log of its workload, in a folder of their own."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def __str__(self):
        return self.folder.name

    @staticmethod
    def keep(folder, recording, log, what, changes):
        """`changes`: how often the writer changed the map."""
        folder.mkdir(parents=True)
        shutil.copytree(recording.output, folder / "profiles")
        shutil.copy(log, folder / "log")
        (folder / "stderr").write_text(recording.stderr)
        (folder / "head").write_text(json.dumps({"head": head(what), "changes": changes}))

    def runTest(self):
        stderr = (self.folder / "stderr").read_text()
        harness.Accounting(stderr).check()
        report = harness.report_json(harness.profiles(self.folder / "profiles"), "--by", "span")
        found = lifecycle.Comparison(lifecycle.read_log(self.folder / "log"), report["rows"])
        side = lifecycle.side(stderr)
        names = ("unseen_ends", "stay_crowd", "busy", "evicted", "emit_refused")
        missed = report["accounting"].get("recursion_misses", 0)
        kept = json.loads((self.folder / "head").read_text())
        # The kernel may skip the writer as it may skip a hook: then the map never held what the log says.
        unwritten = found.calls - kept["changes"]
        figures = {**found.figures(), "recursion_misses": missed, **{name: side[name] for name in names}}
        row(kept["head"], **figures, unwritten=unwritten)
        lost = missed + side["evicted"] + side["stay_crowd"] + side["busy"]
        self.check_claims(found, missed, unwritten, lost)

    def check_claims(self, found, missed, unwritten, lost):
        self.assertEqual(found.invented, [], found.explain_some(found.invented))
        # A call that the writer does not see shifts all that its trace does after that.
        self.assertLessEqual(len(found.wrongly_ended), 4 * unwritten, found.explain_some(found.wrongly_ended))
        if missed == unwritten == 0:
            self.assertEqual(found.missing, [], found.explain_some(found.missing))
            self.assertGreaterEqual(found.share_exact, 0.999, found.explain_some(found.inexact))
        # One change that is missed is the end of one span and the begin of another.
        wrong = len(found.missing) + len(found.untimed) + len(found.inexact)
        self.assertLessEqual(wrong, 0.001 * len(found.truth) + 2 * lost + 4 * unwritten)


class Spans(test_lifecycle.HookedCase):
    def run_spans(self, what, *options):
        log = self.stage.folder / "spans.log"
        command = harness.workload("spans", "--log", log, "--work-us", "300", *options)
        asked = ("--span-times", "--lifecycle", "fentry", "--max-overhead", "0", "--flush", "1", "--symbols", "none")
        # What a ring and a loader without a CPU lose is another matter.
        env = {"SPANFOLD_TEST_RING_BYTES": str(1 << 24)}
        recording = self.stage.record(
            "-F", "199", *asked, "-v", output=f"{what}/", command=command, env=env, timeout=1200
        )
        self.assertEqual(recording.code, 0, recording.stderr)
        kept = pathlib.Path(os.environ.get("VM_OUT", self.stage.folder)) / f"{what} kept"
        Held.keep(kept, recording, log, what, self.changes())
        if "VM_OUT" not in os.environ:
            Held(kept).runTest()

    def changes(self):
        """How often the writer changed the map in this test; another one takes over."""
        self.assertEqual(self.writer.stop(), 0, self.writer.err())
        words = self.writer.out().split()
        type(self).writer = self.stage.start_writer(binaries=["spans"])
        return int(words[words.index("set") + 1]) + int(words[words.index("deleted") + 1])

    def test_1_nested(self):
        self.run_spans("nested", "--pattern", "nested", "--threads", str(CPUS), "--spans", str(SPANS // 3 + CPUS))

    def test_2_nested_eight_threads_a_cpu(self):
        threads = 8 * CPUS
        spans = str(SPANS // 3 + threads)
        self.run_spans("nested, 8 a CPU", "--pattern", "nested", "--threads", str(threads), "--spans", spans)

    def test_3_moves(self):
        self.run_spans("moves", "--pattern", "moves", "--threads", "4", "--spans", str(SPANS // 10))

    def test_4_fanout(self):
        self.run_spans("fanout", "--pattern", "fanout", "--threads", "4", "--spans", str(SPANS // 20))

    def test_5_parked(self):
        self.run_spans("parked", "--pattern", "parked", "--threads", str(CPUS), "--spans", str(SPANS // 10))


class FullSpeed(test_lifecycle.HookedCase):
    """Sets and deletes as fast as the kernel makes them: nothing leaks, and the loader does not grow."""

    def full_speed(self, what, *options):
        record = self.stage.begin_record(
            *("-F", "199", "--flush", "1", "--lifecycle", "fentry", "--max-overhead", "0", "--symbols", "none", "-v"),
            *options,
            output=f"{what}/",
        )
        record.await_error("debug: ")
        churn = self.stage.start_workload(
            *("churn", "--mode", "own", "--threads", str(CPUS), "--seconds", str(SECONDS)),
            *("--ctx-map", self.stage.ctx_map),
        )
        sizes = []
        while churn.running():
            sizes.append(harness.resident_kib(record.pid))
            time.sleep(1)
        self.assertEqual(churn.wait(), 0, churn.err())
        changes, _, seconds = churn.out().split()[1:4]
        flushes = record.err().count("debug: spent ")
        record.await_error("debug: spent ", count=flushes + 3)
        in_use = kernel.records_in_use(record.pid)
        record.send(signal.SIGTERM)
        recording = self.stage.finish(record, timeout=300)
        self.assertEqual(recording.code, 0, recording.stderr)
        accounting = harness.Accounting(recording.stderr)
        accounting.check()
        half = len(sizes) // 2
        row(
            head(what),
            changes_a_second=round(int(changes) / float(seconds)),
            records_tables_locks_left=in_use,
            resident_kib=[max(sizes[:half]), max(sizes[half:])],
            accounting=accounting.line,
        )
        self.assertEqual(in_use, (0, 0, False))
        return recording, sizes

    def test_1_full_speed(self):
        recording, sizes = self.full_speed("full speed")
        half = len(sizes) // 2
        self.assertLess(max(sizes[half:]) - max(sizes[:half]), 1024, f"resident KiB, each second: {sizes}")
        kinds = {each["span_id"][:2] for each in analysis.span_rows(recording.rows())}
        self.assertLessEqual(kinds, {"77"}, "spans that nobody set")

    def test_2_full_speed_with_span_times(self):
        """Too many spans for a report of them all; what a window may hold bounds the loader."""
        _, sizes = self.full_speed("full speed, span times", "--span-times")
        self.assertLess(max(sizes), 64 * 1024, f"resident KiB, each second: {sizes}")


def load_tests(loader, _tests, _pattern):
    """Held has a folder, and is for who compares."""
    return unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in (Spans, FullSpeed))


if __name__ == "__main__":
    if sys.argv[1:2] == ["compare"]:
        folders = sorted(path for path in pathlib.Path(sys.argv[2]).iterdir() if path.is_dir())
        outcome = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(map(Held, folders)))
        sys.exit(not outcome.wasSuccessful())
    unittest.main(verbosity=2)
