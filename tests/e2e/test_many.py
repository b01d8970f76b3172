# SPDX-License-Identifier: Apache-2.0
"""More stacks than anything that we keep has room for: each sample is in its own span and under a stack that its program
can have, or it is counted where everybody sees it."""

import collections
import re
import signal
import statistics
import time

import analysis
import harness
import lifecycle

FREQ = 4000
LEVELS, STACKS = 4, 100  # tests/workloads/stacks.cpp
_STEP = re.compile(r"^(branch|leaf)<(\d+)(?:,(\d+))?>$")


def way_of(frames):
    """The digits of the branches that a stack came through, outermost first, and its leaf."""
    digits, leaf = {}, None
    for frame in frames:
        step = _STEP.match(analysis.name_of(frame))
        if step is None:
            continue
        kind, number, digit = step.groups()
        if kind == "leaf":
            leaf = int(number)
        else:
            digits.setdefault(int(number), []).append(int(digit))
    return digits, leaf


def check_ways(rows):
    """No stack that the workload cannot have, nor one of another span. Gives the samples of each (span, stack)."""
    pairs, whole, samples = collections.Counter(), 0, 0
    for row in analysis.span_rows(rows):
        own_leaf = int(row["span_id"][4:], 16)
        for stack in row["stacks"]:
            if stack["frames"][-1] in analysis.TOO_EARLY:
                continue
            digits, leaf = way_of(stack["frames"])
            samples += stack["count"]
            # At the first instructions of a function its caller's frame is not seen.
            if leaf not in (own_leaf, None) or any(len(each) > 1 for each in digits.values()):
                raise AssertionError(f"in span {row['span_id']}: {stack}")
            if leaf is None or len(digits) < LEVELS:
                continue
            way = tuple(digits[level][0] for level in range(LEVELS))
            if (sum(way) + leaf) % 10 != 0:
                raise AssertionError(f"no such stack, in span {row['span_id']}: {stack}")
            pairs[row["trace_id"], way] += stack["count"]
            whole += stack["count"]
    if whole < 0.95 * (samples - frames_lost(rows)):
        raise AssertionError(f"only {whole} of {samples} samples have whole stacks")
    return pairs


def frames_lost(rows):
    return sum(stack["count"] for row in rows for stack in row.get("stacks", []) if stack["frames"] == ["[frames lost]"])


class Many(harness.StageCase):
    @classmethod
    def set_up_stage(cls):
        cls.stage.start_writer(binaries=["stacks"])

    def begin(self, *options, **asked):
        command = harness.workload("stacks", "--cpu-us", "300", *options)
        words = ("-F", FREQ, "--flush", "1", "--max-overhead", "0", "-v")
        return self.stage.begin_record(*words, command=command, **asked)

    def finish(self, running):
        recording = self.stage.finish(running, timeout=300).check()
        return recording, check_ways(recording.rows())

    def check_all_there(self, recording):
        cpu_ns = int(re.search(r"cpu_ns (\d+)", recording.stdout).group(1))
        accounting = recording.accounting
        self.assertEqual(accounting.dropped, 0)
        self.assertNotIn("the profile is incomplete", recording.stderr)
        analysis.check_count("samples", accounting.in_span, cpu_ns * 1e-9 * FREQ, accounting.missed, slack=0.03)

    def check_drops_are_told(self, recording):
        """By reason, in all that somebody may look at."""
        accounting = recording.accounting
        self.assertIn(accounting.line, harness.report(recording.files, "--by", "span"))
        told = harness.report_json(recording.files, "--by", "span")["accounting"]
        self.assertEqual({name: count for name, count in told["dropped"].items() if count}, accounting.reasons)
        self.assertEqual(recording.stderr.count("the profile is incomplete: "), 1)

    def test_twenty_thousand_pairs(self):
        recording, pairs = self.finish(self.begin("--spans", "200", "--stacks", STACKS, output="pairs/"))
        self.check_all_there(recording)
        self.assertGreater(len(pairs), 0.8 * 200 * STACKS)

    def test_twenty_thousand_pairs_and_no_room(self):
        """All stores are full all the time, and for a while nobody reads the ring."""
        env = {"SPANFOLD_TEST_RING_BYTES": "8192", "SPANFOLD_TEST_TABLES": "1", "SPANFOLD_TEST_BUCKETS": "1"}
        running = self.begin("--spans", "200", "--stacks", STACKS, "--threads", "16", output="full/", env=env)
        running.await_error("debug: spent ")
        running.send(signal.SIGSTOP)
        time.sleep(1)
        running.send(signal.SIGCONT)
        recording, pairs = self.finish(running)
        self.assertGreater(len(pairs), 0.2 * 200 * STACKS)
        side = lifecycle.side(recording.stderr)
        bounds = ("lone_crowd", "tables_short", "rolls", "emit_refused", "stacks_refused")
        self.assertEqual([name for name in bounds if side[name] == 0], [], "bounds that were not reached")
        self.assertGreater(recording.accounting.reasons["ring_full"], 0)
        self.check_drops_are_told(recording)
        # What no frames are known of keeps its span, and is told of.
        lost = frames_lost(recording.rows())
        said = re.findall(r"(\d+) samples show as \[frames lost\]", recording.stderr)
        self.assertEqual(sum(map(int, said)), lost)

    def test_five_hundred_stacks_in_one_span(self):
        recording, pairs = self.finish(self.begin("--spans", "1", "--stacks", "500", "--rounds", "30"))
        self.check_all_there(recording)
        self.assertGreater(len(pairs), 490)
        # All cost the same, so counts differ no more than chance has it: none takes in what is another's.
        mean = sum(pairs.values()) / len(pairs)
        variance = statistics.pvariance(pairs.values(), mean)
        self.assertLess(variance / mean, 1.5, sorted(pairs.values()))
