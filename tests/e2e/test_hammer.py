# SPDX-License-Identifier: Apache-2.0
"""Ends of spans at full speed: a record that is used again too early puts a sample into a wrong span."""

import analysis
import harness

PHASES, THREADS = 4, 8


def own_work(row):
    """What ran inside the ids of one thread and phase."""
    return f"hammer_work<{int(row['span_id'][2:4], 16)},{analysis.kind_of(row) - 1}>"


class Hammer(harness.StageCase):
    @classmethod
    def set_up_stage(cls):
        cls.stage.start_writer(binaries=["hammer"])
        cls.known = {f"hammer_work<{thread},{phase}>" for thread in range(THREADS) for phase in range(PHASES)}

    def hammer(self, *options, env=None, seconds="3"):
        command = harness.workload("hammer", "--seconds", seconds, *options)
        recording = self.stage.record("-F", "4000", "--flush", "1", command=command, env=env).check()
        self.assertGreater(recording.accounting.in_span, 500, "too few samples to say anything")
        return recording

    def check_shared(self, recording):
        """Ids of a phase are those of all threads: the phase of the function must be that of the id."""
        for row in analysis.span_rows(recording.rows()):
            for name in filter(None, analysis.work_counts(row, self.known)):
                self.assertTrue(name.endswith(f",{analysis.kind_of(row) - 1}>"), f"{name} in span {row['span_id']}")

    def check_own(self, recording):
        for row in analysis.span_rows(recording.rows()):
            wrong = set(filter(None, analysis.work_counts(row, self.known))) - {own_work(row)}
            self.assertFalse(wrong, f"in span {row['span_id']}")

    def test_two_threads_one_span(self):
        self.check_shared(self.hammer("--threads", "2"))

    def test_eight_threads_one_span(self):
        self.check_shared(self.hammer("--threads", "8"))

    def test_two_threads_own_spans(self):
        self.check_own(self.hammer("--threads", "2", "--ids", "own"))

    def test_eight_threads_own_spans(self):
        self.check_own(self.hammer("--threads", "8", "--ids", "own", "--pool", "4000"))

    def test_by_system_calls(self):
        self.check_own(self.hammer("--threads", "2", "--ids", "own", "--ctx-map", self.stage.ctx_map))

    def test_with_hardly_any_records(self):
        recording = self.hammer("--threads", "8", "--ids", "own", "--pool", "400", env={"SPANFOLD_TEST_BUCKETS": "1"})
        self.check_own(recording)

    def test_with_no_room_in_the_ring(self):
        env = {"SPANFOLD_TEST_RING_BYTES": "4096"}
        recording = self.hammer("--threads", "8", "--ids", "own", "--pool", "4000", env=env)
        self.check_own(recording)

    def test_with_one_table(self):
        self.check_own(self.hammer("--threads", "8", "--ids", "own", env={"SPANFOLD_TEST_TABLES": "1"}))
