# SPDX-License-Identifier: Apache-2.0
"""Stacks of every shape: no caller is missing, none is invented, and what cannot be walked to its end says so."""

import pathlib
import re
import shutil
import unittest

import analysis
import harness
import kernel

FREQ = 999
START = ["main", "__libc_start_call_main", "__libc_start_main", "_start"]
THREAD = ["start_thread", "clone3"]
# Shape to the callers of spin, innermost first.
SHAPES = {
    "plain": ["calls_plainly", *START],
    "alloca": ["calls_plainly", "with_alloca", *START],
    "realigned": ["calls_plainly", "realigned", *START],
    "realigned_alloca": ["calls_plainly", "realigned_with_alloca", *START],
    "mutual": [*["even", "odd"] * 20, "even", *START],
    "deep": [*["even", "odd"] * 50, "even", *START],
    "signal": ["calls_plainly", "on_signal", "__restore_rt", ..., "raises", *START],
    "signal_stack": ["calls_plainly", "on_signal", "__restore_rt", ..., "raises", *START],
    "fault": ["calls_plainly", "on_fault", "__restore_rt", "faults", *START],
    "qsort": ["compare", ..., "through_libc", *START],
    # glibc's call-frame information does not say that nobody called it.
    "makecontext": ["calls_plainly", "coroutine", "__start_context", "[return address outside code]"],
    "large": ["calls_plainly", "large_frame", *START],
    "vfork": ["in_child", *START],
    "thread": ["calls_plainly", "on_edge", *THREAD],
}
TOO_EARLY = analysis.TOO_EARLY


def bare(frame):
    """Without the version of a symbol, and the arguments of C++."""
    return re.split(r"[@(]", frame)[0]


def matches(frames, expected):
    """`...` stands for any number of frames of other files."""
    if ... not in expected:
        return frames == expected
    at = expected.index(...)
    rest = expected[at + 1 :]
    return frames[:at] == expected[:at] and len(frames) >= at + len(rest) and frames[len(frames) - len(rest) :] == rest


class UnwindCase(harness.StageCase):
    def stacks_of(self, *command, options=()):
        """[(count, frames)] of the process, and how many samples came too early."""
        options = ("-F", FREQ, "--background", "stacks", *options)
        recording = self.stage.record(*options, command=command, timeout=120).check()
        stacks = []
        for row in recording.rows("stack"):
            for stack in row["stacks"]:
                stacks.append((stack["count"], [bare(frame) for frame in stack["frames"]]))
        early = sum(count for count, frames in stacks if frames[-1] in TOO_EARLY)
        return [(count, frames) for count, frames in stacks if frames[-1] not in TOO_EARLY], early

    def incomplete(self, stacks):
        return [(count, frames) for count, frames in stacks if frames[-1].startswith("[")]


class Shapes(UnwindCase):
    def check(self, shape, expected):
        stacks, early = self.stacks_of(*harness.workload("zoo", shape, "0.4"))
        total = sum(count for count, _ in stacks)
        self.assertGreater(total, 100, f"{early} samples came too early")
        spinning = [(count, frames[frames.index("spin") + 1 :]) for count, frames in stacks if "spin" in frames]
        self.assertGreater(sum(count for count, _ in spinning), 0.9 * total, stacks)
        for count, frames in spinning:
            self.assertTrue(matches(frames, expected), f"{count} samples: {frames}, not {expected}")

    def test_stack_deeper_than_what_is_kept(self):
        stacks, _ = self.stacks_of(*harness.workload("zoo", "too_deep", "0.4"))
        deep = [(count, frames) for count, frames in stacks if "spin" in frames]
        self.assertGreater(sum(count for count, _ in deep), 100)
        for _, frames in deep:
            self.assertEqual(frames[-1], "[truncated]")
            self.assertEqual(len(frames), 128 + 1 if frames[0] == "spin" else len(frames))


    def test_max_frames(self):
        stacks, _ = self.stacks_of(*harness.workload("zoo", "mutual", "0.4"), options=("--max-frames", "7"))
        deep = [frames for _, frames in stacks if frames[0] == "spin"]
        self.assertEqual(deep, [["spin", "even", "odd", "even", "odd", "even", "odd", "[truncated]"]] * len(deep))
        self.assertTrue(deep)

    def test_probed_returns(self):
        """The kernel puts its own return address in place of the caller's while a return is probed."""
        program = harness.workload("zoo", "mutual", "0.4")[0]
        try:
            probes = [kernel.ProbedReturn(program, name) for name in ("even", "odd", "main")]
        except OSError as error:
            self.skipTest(f"this kernel takes no probes of returns: {error}")
        for probe in probes:
            self.addCleanup(probe.close)
        self.check("mutual", SHAPES["mutual"])
        self.assertGreater(sum(probe.count() for probe in probes), 40)


def add_shape(shape, expected):
    setattr(Shapes, f"test_{shape}", lambda self: self.check(shape, expected))


for each, callers in SHAPES.items():
    add_shape(each, callers)


class Programs(UnwindCase):
    """Programs as they are shipped: nearly all stacks reach their bottom."""

    def check(self, roots, *command, least=0.995):
        stacks, early = self.stacks_of(*command)
        total = sum(count for count, _ in stacks)
        self.assertGreater(total, 300, f"{early} samples came too early")
        cut = sum(count for count, _ in self.incomplete(stacks))
        self.assertLess(cut, (1 - least) * total, self.incomplete(stacks)[:5])
        for _, frames in stacks:
            if not frames[-1].startswith("["):
                self.assertIn(frames[-1], roots)

    def write(self, name, text):
        path = pathlib.Path(self.stage.folder) / name
        path.write_text(text)
        return path

    def test_python(self):
        script = self.write(
            "busy.py",
            "import json, time\nend = time.process_time() + 1\n"
            "while time.process_time() < end: json.loads(json.dumps([{'a': i} for i in range(200)]))\n",
        )
        # It loads modules while it starts: code that is not known for a moment.
        self.check({"_start", "clone3"}, shutil.which("python3"), script, least=0.98)

    @unittest.skipUnless(shutil.which("node"), "node is not installed")
    def test_node(self):
        script = self.write(
            "busy.js",
            "const end = Date.now() + 2000;\nwhile (Date.now() < end) JSON.parse(JSON.stringify([...Array(200).keys()]));\n",
        )
        # It compiles: pages of code are new for a moment, and then known.
        self.check({"_start", "clone3", "clone"}, shutil.which("node"), script, least=0.97)


if __name__ == "__main__":
    unittest.main()
