# SPDX-License-Identifier: Apache-2.0
"""Ticks that interrupt the hooks of two processes at their hottest, and are interrupted by them: no stack has functions
of both, and no sample is in a span of the other. The two share their trace ids."""

import shlex

import analysis
import harness
import test_hammer
import test_lifecycle

THREADS = 2  # of each


class TwoProcesses:
    BINARIES = ("hammer",)

    def record_both(self, *commands):
        line = " & ".join(shlex.join(map(str, command)) for command in commands) + " & wait"
        options = ("-F", "4000", "--background", "stacks", "--span-times", "--lifecycle", self.MODE)
        running = ("--max-overhead", "0", "--flush", "1")
        return self.stage.record(*options, *running, command=["sh", "-c", line], timeout=300).check()

    def hammers(self, *options):
        """Threads 0 and 1, and 2 and 3: functions and span ids tell whose they are."""
        for first in (0, THREADS):
            numbers = ("--threads", str(THREADS), "--first", str(first))
            yield harness.workload("hammer", "--ids", "own", "--seconds", "3", *numbers, *options)

    def check_hammers(self, recording):
        pids = {0: set(), 1: set()}
        for row in recording.rows():
            own = test_hammer.own_work(row) if "span_id" in row else None
            for stack in row["stacks"]:
                works = {name for name in map(analysis.name_of, stack["frames"]) if name.startswith("hammer_work<")}
                self.assertLessEqual(len(works), 1, f"functions of several threads on one stack: {stack}")
                if own is not None:
                    self.assertLessEqual(works, {own}, f"in span {row['span_id']}")
            if own is not None:
                pids[int(row["span_id"][2:4], 16) // THREADS].add(row["pid"])
        self.assertEqual([len(each) for each in pids.values()], [1, 1], f"spans of one process in the other: {pids}")
        self.assertNotEqual(pids[0], pids[1])

    def test_by_probes(self):
        self.check_hammers(self.record_both(*self.hammers()))

    def test_by_system_calls(self):
        self.check_hammers(self.record_both(*self.hammers("--ctx-map", self.stage.ctx_map)))

    def test_by_programs_that_ticks_interrupt(self):
        """While a probe's program or a map's system call runs, the kernel keeps perf programs away, and so ticks."""
        own = ("--mode", "own", "--threads", str(THREADS), "--seconds", "3", "--ctx-map", self.stage.ctx_map)
        recording = self.record_both(*(harness.workload("churn", *own) for _ in range(2)))
        rows = analysis.span_rows(recording.rows())
        for row in rows:
            pid = int.from_bytes(bytes.fromhex(row["trace_id"])[:8], "little") >> 32  # tests/workloads/churn.bpf.c
            self.assertEqual(row["pid"], pid, f"span {row['span_id']} of one process in the other")
        self.assertEqual(len({row["pid"] for row in rows}), 2)


class UnderSweep(TwoProcesses, test_lifecycle.LifecycleCase):
    pass


class UnderHooks(TwoProcesses, test_lifecycle.HookedCase):
    pass
