# SPDX-License-Identifier: Apache-2.0
"""Lines of source and inlined functions of a real recording equal those of another reader of DWARF."""

import collections
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

import harness

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from otlp import wire  # noqa: E402


def locations_of(path, module):
    """(address, places) of the locations in files called `module`."""
    dictionary = collections.defaultdict(list)
    for rows, _ in wire.read(path.read_bytes()):
        for table, some in rows.items():
            dictionary[table] += some
    strings = dictionary["string"]

    def place(line):
        function = dictionary["function"][line["function_index"]]
        return f"{strings[function['filename_strindex']]}:{line['line']}"

    for location in dictionary["location"]:
        mapping = dictionary["mapping"][location["mapping_index"]]
        if strings[mapping["filename_strindex"]].endswith("/" + module):
            places = [place(line) for line in location["lines"]]
            yield location["address"], [each for each in places if not each.endswith(":0")]


# A function whose debug information takes a second for each of its addresses: it holds 20 million blocks.
SLOW = """
  .globl slow
  .type slow, @function
slow:
  .rept 64
  nop
  .endr
  jmp slow
  .size slow, . - slow
.Lend:
  .section .note.GNU-stack,"",@progbits
  .section .debug_abbrev,"",@progbits
.Labbrev:
  .uleb128 1; .uleb128 0x11; .byte 1
  .uleb128 0x11; .uleb128 0x01; .uleb128 0x12; .uleb128 0x07; .uleb128 3; .uleb128 8; .uleb128 0; .uleb128 0
  .uleb128 2; .uleb128 0x2e; .byte 1
  .uleb128 0x11; .uleb128 0x01; .uleb128 0x12; .uleb128 0x07; .uleb128 3; .uleb128 8; .uleb128 0; .uleb128 0
  .uleb128 3; .uleb128 0x0b; .byte 0
  .uleb128 0; .uleb128 0
  .byte 0
  .section .debug_info,"",@progbits
  .long .Linfo_end - .Linfo
.Linfo:
  .short 4
  .long .Labbrev
  .byte 8
  .uleb128 1; .quad slow; .quad .Lend - slow; .asciz "slow.c"
  .uleb128 2; .quad slow; .quad .Lend - slow; .asciz "slow"
  .fill 20000000, 1, 3
  .byte 0
  .byte 0
.Linfo_end:
"""


def workers_of(pid):
    """Those that read debug information."""
    listing = subprocess.run(["pgrep", "-P", str(pid), "-u", "nobody"], capture_output=True, text=True, check=False)
    return [int(word) for word in listing.stdout.split()]


def runs(pid):
    try:
        return ") Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def truth_of(binary, addresses):
    """Address to the places that llvm-symbolizer gives, innermost first."""
    tool = ["llvm-symbolizer", f"--obj={binary}", "-a", "-i", "--output-style=GNU", *map(hex, addresses)]
    places = {}
    for line in subprocess.run(tool, capture_output=True, text=True, check=True).stdout.splitlines():
        if line.startswith("0x"):
            current, is_place = places.setdefault(int(line, 16), []), False
            continue
        if is_place and not line.endswith(("?", ":0")):
            current.append(line.split(" (discriminator")[0])
        is_place = not is_place
    return places


@unittest.skipUnless(shutil.which("llvm-symbolizer"), "llvm-symbolizer is not installed")
class Lines(harness.StageCase):
    @classmethod
    def set_up_stage(cls):
        cls.stage.start_writer(binaries=["known"])

    def test_lines_of_a_recording(self):
        command = harness.workload("known", "--seconds", "3", "--truth", self.stage.folder / "truth.jsonl")
        recording = self.stage.record("-F", 999, "--lines", command=command).check()
        found = dict(locations_of(recording.output, "known"))
        self.assertGreater(len(found), 10)
        self.assertEqual(found, truth_of(command[0], found))

    def test_lines_need_names(self):
        code, _, stderr = harness.spanfold("record", "--lines", "--symbols", "none")
        self.assertEqual(code, 2)
        self.assertIn("--lines", stderr)


@unittest.skipUnless(shutil.which("gcc") and os.uname().machine == "x86_64", "no gcc for x86-64 is installed")
class SlowLines(harness.StageCase):
    """Debug information that takes for ever holds up nobody."""

    def begin(self):
        folder = self.stage.folder
        (folder / "slow.s").write_text(SLOW)
        (folder / "main.c").write_text("void slow(void);\nint main(void) { slow(); }\n")
        subprocess.run(["gcc", "-o", folder / "slow", folder / "main.c", folder / "slow.s"], check=True)
        target = self.stage.start(folder / "slow")
        running = self.stage.begin_record("-F", 997, "--lines", "--flush", "1", "--background", "stacks", "-v", "-p", target.pid)
        end = time.monotonic() + 60
        while not workers_of(running.pid) and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(1)
        return target, running, workers_of(running.pid)

    def test_the_end_waits_once(self):
        """Three seconds for the lines of the last flush, and no more for those of one that is under way."""
        target, running, workers = self.begin()
        self.assertEqual(len(workers), 1)
        begin = time.monotonic()
        running.stop(signal.SIGTERM)
        self.assertLess(time.monotonic() - begin, 5)
        self.assertFalse(runs(workers[0]))
        target.stop(signal.SIGKILL)
        recording = harness.Recording(running, 0, running.output).check()
        self.assertEqual(recording.accounting.dropped, 0)
        self.assertTrue(any("slow" in row["key"] for row in recording.rows("function")), recording.stderr)

    def test_a_second_signal_ends_the_wait(self):
        target, running, _ = self.begin()
        running.send(signal.SIGTERM)
        time.sleep(0.5)
        begin = time.monotonic()
        running.stop(signal.SIGTERM)
        self.assertLess(time.monotonic() - begin, 2)
        target.stop(signal.SIGKILL)
        harness.Recording(running, 0, running.output).check()

    def test_nobody_is_left_when_the_recorder_is_killed(self):
        target, running, workers = self.begin()
        self.assertEqual(len(workers), 1)
        running.stop(signal.SIGKILL)
        end = time.monotonic() + 10
        while runs(workers[0]) and time.monotonic() < end:
            time.sleep(0.1)
        self.assertFalse(runs(workers[0]))
        target.stop(signal.SIGKILL)


if __name__ == "__main__":
    unittest.main()
