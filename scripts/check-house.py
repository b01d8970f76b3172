#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a file breaks a house rule that can be counted: licence lines, sizes, names of BPF maps and programs,
words that do not belong, and what may stand at the top. Sizes of functions are clang-tidy's affair."""
import argparse
import pathlib
import re
import subprocess
import sys

TOP_LEVEL = {"Makefile", "bpf", "loader", "vmlinux", "scripts", "tests", "bench", "README.md", "LICENSE",
             "CHANGELOG.md", "CONTRIBUTING.md"}
SOURCE = {".c", ".cpp", ".h", ".hpp", ".py", ".sh"}
LICENSED = SOURCE | {".txt"}
# Generated, or the licence itself, or data for tests.
NO_SIZE = re.compile(r"vmlinux/[^/]+/vmlinux\.h")
NO_LICENCE = re.compile(r"tests/.*\.txt|bench/.*\.txt")

FILE_AIM, FILE_STOP, PROGRAM_STOP = 300, 500, 120
BPF_NAME_BYTES = 15  # BPF_OBJ_NAME_LEN - 1: longer names are cut in bpftool's lists

KERNEL_LICENCE = "GPL-2.0-only OR BSD-2-Clause"
LICENCE = "Apache-2.0"

# Spelled in two halves, or this file would break its own rule.
LEFT_OPEN = re.compile(r"\b(" + "|".join(("TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK")) + r")\b")
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
MAP = re.compile(r"\}\s*(\w+)\s+SEC\(\"\.maps\"\)")
PROGRAM = re.compile(r"SEC\(\"(?!\.|license|version)[^\"]*\"\)\s*(?:\w+\s+)*?\w+\s+(?:BPF_[A-Z_]+\(\s*)?(\w+)\s*[,()]")


def list_files(root):
    """Paths from the root: what git tracks or would, or all files where there is no repository."""
    if (root / ".git").exists():
        listed = subprocess.run(["git", "-C", root, "ls-files", "-coz", "--exclude-standard"], check=True,
                                stdout=subprocess.PIPE).stdout.decode().split("\0")
        return sorted(name for name in listed if name and (root / name).is_file())
    return sorted(each.relative_to(root).as_posix() for each in root.rglob("*") if each.is_file())


def expected_licences(name):
    if name.startswith("bpf/") or NO_SIZE.fullmatch(name):
        return {KERNEL_LICENCE}
    if not name.startswith(("tests/", "bench/")):
        return {LICENCE}
    # The kernel lends its GPL helpers only to programs that are GPL too, so these programs offer that choice.
    return {LICENCE, f"{LICENCE} OR GPL-2.0-only"} | ({KERNEL_LICENCE} if name.endswith((".bpf.c", ".bpf.h")) else set())


def needs_licence(name, first_line):
    base = name.rpartition("/")[2]
    if NO_LICENCE.fullmatch(name):
        return False
    return (pathlib.PurePath(name).suffix in LICENSED or base in ("Makefile", ".clang-format", ".clang-tidy", ".gitignore")
            or first_line.startswith("#!"))


class House:
    def __init__(self, root):
        self.root = root
        self.breaches = []
        self.warnings = []

    def check(self):
        for name in list_files(self.root):
            top = name.partition("/")[0]
            if top not in TOP_LEVEL and not top.startswith("."):
                self.stop(name, 1, f"the top level holds {', '.join(sorted(TOP_LEVEL))} and dotfiles only")
            try:
                text = (self.root / name).read_text()
            except UnicodeDecodeError:
                continue
            self.check_licence(name, text)
            self.check_size(name, text)
            self.check_words(name, text)
            if name.endswith((".bpf.c", ".bpf.h")):
                self.check_bpf_names(name, text)
        return self.breaches

    def stop(self, name, line, rule):
        self.breaches.append(f"{name}:{line}: {rule}")

    def check_licence(self, name, text):
        head = text.splitlines()[:2]
        if not needs_licence(name, head[0] if head else ""):
            return
        found = re.search(r"SPDX-License-Identifier: (.*?)\s*(?:\*/)?$", "\n".join(head), re.MULTILINE)
        expected = expected_licences(name)
        if not found:
            self.stop(name, 1, f"no SPDX-License-Identifier in the first two lines ({sorted(expected)[0]})")
        elif found.group(1) not in expected:
            self.stop(name, 1, f"licence {found.group(1)}, but {sorted(expected)[0]} belongs here")

    def check_size(self, name, text):
        if NO_SIZE.fullmatch(name) or not (pathlib.PurePath(name).suffix in SOURCE or name == "Makefile"):
            return
        lines = len(text.splitlines())
        stop = PROGRAM_STOP if name.startswith("bpf/") and name.endswith(".bpf.c") else FILE_STOP
        if lines > stop:
            self.stop(name, lines, f"{lines} lines, {stop} is the stop")
        elif lines > FILE_AIM:
            self.warnings.append(f"{name}: {lines} lines, {FILE_AIM} are aimed at")

    def check_words(self, name, text):
        for number, line in enumerate(text.splitlines(), 1):
            found = LEFT_OPEN.search(line)
            if found:
                self.stop(name, number, f"{found.group()} marks work left open: do it, or say in the text what is missing")
        if pathlib.PurePath(name).suffix in (".cpp", ".hpp", ".h") and not name.startswith(("bpf/", "vmlinux/")):
            code = COMMENT_OR_STRING.sub(lambda each: "\n" * each.group().count("\n"), text)
            for number, line in enumerate(code.splitlines(), 1):
                if re.search(r"\bgoto\b", line):
                    self.stop(name, number, "no goto in C++: let an owner clean up")

    def check_bpf_names(self, name, text):
        for what, pattern in (("map", MAP), ("program", PROGRAM)):
            for found in pattern.finditer(text):
                self.check_bpf_name(name, text.count("\n", 0, found.start(1)) + 1, what, found.group(1))

    def check_bpf_name(self, name, line, what, given):
        if len(given) > BPF_NAME_BYTES:
            self.stop(name, line, f"{what} {given} has {len(given)} characters, bpftool shows {BPF_NAME_BYTES}")
        if what == "program" and name.startswith("bpf/") and not given.startswith("on_"):
            self.stop(name, line, f"program {given}: programs are called on_<event>")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    house = House(parser.parse_args().root)
    breaches = house.check()
    for each in house.warnings:
        print(f"{each} (no breach)", file=sys.stderr)
    for each in breaches:
        print(each)
    sys.exit(1 if breaches else 0)


if __name__ == "__main__":
    main()
