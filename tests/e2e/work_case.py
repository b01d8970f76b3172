# SPDX-License-Identifier: Apache-2.0
"""Programs that do the work they are told (jit_worker.Worker), each piece inside a span that says which it was."""

import os
import re

import analysis
import harness
import jit_worker
import kernel

FREQ = "499"
TRACE = bytes.fromhex("0af7651916cd43dd8448eb211c80319c")
TIMES = 2
FUNCTIONS = {1: "alpha", 2: "beta"}


def span_id(kind):
    return bytes([kind, 0, 0, 0, 0, 0, 0, 1])


class WorkCase(harness.StageCase):
    UNITS = 300  # a span

    def setUp(self):
        self.stage.new_bpffs()
        self.stage.ctx_map.parent.mkdir()
        fd = kernel.create_map()
        kernel.pin(fd, self.stage.ctx_map)
        os.close(fd)

    def worker(self, *command, **kwargs):
        worker = jit_worker.Worker(*command, cwd=self.stage.folder, **kwargs)  # some leave files where they start
        self.addCleanup(worker.close)
        return worker

    def begin(self, worker, flush="1", freq=FREQ, **kwargs):
        """Begins to record a worker: (recorder, its thread that works)."""
        tid = worker.warm_up(FUNCTIONS.values(), self.UNITS)
        running = self.stage.begin_record("-F", freq, "-p", worker.pid, "--flush", flush, **kwargs)
        kernel.await_recorder(running.pid)
        return running, tid

    def spend(self, worker, tid):
        """Spans around known functions: alpha in one, beta in the other."""
        entries = kernel.ContextMap(self.stage.ctx_map)
        for kind, name in list(FUNCTIONS.items()) * TIMES:
            entries.set(worker.pid, tid, TRACE, span_id(kind))
            worker.spend(name, self.UNITS)
            entries.clear(worker.pid, tid)
        entries.close()

    def record(self, worker, flush="1", **kwargs):
        """A long flush ends with the process."""
        running, tid = self.begin(worker, flush, **kwargs)
        self.spend(worker, tid)
        worker.finish()
        return self.stage.finish(running).check()

    def check_names(self, recording, least_share, pattern):
        """Nearly all samples of a span show its function, none that of the other. Gives the frames that were named."""
        rows = analysis.span_rows(recording.rows())
        self.assertEqual({analysis.kind_of(row) for row in rows}, set(FUNCTIONS))
        names = set()
        for row in rows:
            own = FUNCTIONS[analysis.kind_of(row)]
            named = early = 0
            for stack in row["stacks"]:
                if stack["frames"][-1] in analysis.TOO_EARLY:
                    early += stack["count"]
                    continue
                found = [match for frame in stack["frames"] if (match := re.fullmatch(pattern, frame))]
                self.assertLessEqual({match[1] for match in found}, {own}, stack["frames"])
                named += stack["count"] if found else 0
                names.update(match[0] for match in found)
            whole = harness.samples(row) - early
            self.assertGreater(named, least_share * whole, [(stack["count"], stack["frames"]) for stack in row["stacks"]])
        return names
