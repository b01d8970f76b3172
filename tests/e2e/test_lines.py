# SPDX-License-Identifier: Apache-2.0
"""Lines of source and inlined functions of a real recording equal those of another reader of DWARF."""

import collections
import pathlib
import shutil
import subprocess
import sys
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


if __name__ == "__main__":
    unittest.main()
