#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a file includes what its room must not see. The rooms are described in CONTRIBUTING.md; this table is
what is enforced. Reads #include lines only: what a macro includes, or a system header in turn, is out of sight."""
import argparse
import pathlib
import re
import sys

# Room of loader/ → rooms that it may include besides itself.
ROOMS = {
    "base": set(),
    "bpf": {"base"},
    "proc": {"base"},
    "unwind": {"base"},
    "profile": {"base"},
    "export": {"base"},
    "report": {"base", "profile"},
    "app": {"base", "bpf", "proc", "unwind", "profile", "export", "report"},
}
# Single headers that a room may include beyond that.
DOORS = {"unwind": {"loader/proc/byte_source.h", "loader/proc/elf_file.h", "loader/proc/go_table.h"}, "bpf": {"bpf/abi.h"}}

# Library → (what its headers look like, rooms that may see it).
LIBRARIES = {
    "libbpf": (r"bpf/.*|linux/bpf\.h|linux/btf\.h", {"bpf"}),
    "a skeleton": (r".*\.skel\.h", {"bpf"}),
    "libelf, libdw": (r"libelf\.h|gelf\.h|nlist\.h|elfutils/.*|dwarf\.h", {"proc"}),
    "libiberty": (r"libiberty/.*|libiberty\.h|demangle\.h", {"proc"}),
    "liblzma": (r"lzma\.h|lzma/.*", {"proc"}),
    "zlib": (r"zlib\.h|zconf\.h", {"profile", "unwind"}),
    "protozero": (r"protozero/.*", {"profile", "report"}),
    "CLI11": (r"CLI/.*", {"app"}),
    "simdjson": (r"simdjson.*", {"report"}),
    "libcurl": (r"curl/.*", {"export"}),
    "fmt": (r"fmt/.*", set(ROOMS)),
    "doctest": (r"doctest/.*|doctest\.h", set()),
    "httplib": (r"httplib\.h", set()),
}
# System headers are told from libraries by their folder; anything else with a folder, or in .hpp, is a library.
SYSTEM_FOLDERS = {"arpa", "asm", "asm-generic", "bits", "ext", "linux", "net", "netinet", "scsi", "sys"}

# The ladder of bpf/, lowest rung first: a header includes only what stands before it. Programs stand on top.
LADDER = ["abi.h", "core.h", "unwind.h", "compat.bpf.h", "knobs.bpf.h", "maps.bpf.h", "stats.bpf.h", "take.bpf.h",
          "emit.bpf.h", "task.bpf.h", "context.bpf.h", "registers.bpf.h", "rules.bpf.h", "step.bpf.h", "walk.bpf.h",
          "stack.bpf.h", "record.bpf.h", "note.bpf.h", "leave.bpf.h", "stay.bpf.h", "sweep.bpf.h", "fold.bpf.h"]
BASE = LADDER[3:7]  # the only ones that see the kernel's types and libbpf's macros

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SUFFIXES = {".c", ".cpp", ".h", ".hpp"}


def breach_of_target(room, target):
    """The rule that a project file `target` breaks when a file of `room` includes it, or None."""
    top, _, rest = target.partition("/")
    if top in ("tests", "bench"):
        return f"nothing sees {top}/"
    if top == "bpf":
        return None if target in DOORS.get(room, ()) else "only loader/bpf sees bpf/, and of it only abi.h"
    if top == "loader":
        other = rest.partition("/")[0]
        if other == room or other in ROOMS[room] or target in DOORS.get(room, ()):
            return None
        return f"loader/{room} may include {', '.join(sorted(ROOMS[room])) or 'no other room'}, not {other}"
    return f"{top}/ is nothing that loader/ includes"


def breach_of_library(room, name):
    """The rule that `#include <name>` breaks in a file of `room`, or None."""
    for library, (pattern, rooms) in LIBRARIES.items():
        if re.fullmatch(pattern, name):
            where = " and ".join(f"loader/{each}" for each in sorted(rooms)) or "tests"
            return None if room in rooms else f"{library} is seen by {where} only"
    folder, slash, _ = name.rpartition("/")
    if name.endswith(".hpp") or (slash and folder.split("/")[0] not in SYSTEM_FOLDERS):
        return "no room is known to see this library: name it in scripts/check-rooms.py"
    return None


class Tree:
    def __init__(self, root):
        self.root = root
        self.breaches = []

    def check(self):
        for top in ("bpf", "loader"):
            for path in sorted((self.root / top).rglob("*")):
                if path.suffix in SUFFIXES and path.is_file():
                    self.check_file(path, top)
        return self.breaches

    def check_file(self, path, top):
        name = path.relative_to(self.root).as_posix()
        parts = name.split("/")
        if top == "loader" and (len(parts) < 3 or parts[1] not in ROOMS):
            self.breaches.append(f"{name}:1: not in a room: loader/ holds {', '.join(ROOMS)}")
            return
        if top == "bpf" and not name.endswith(".bpf.c") and parts[-1] not in LADDER:
            self.breaches.append(f"{name}:1: not on the ladder of bpf/: give it a rung in scripts/check-rooms.py")
            return
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            rule = self.breach(path, parts, found.group(1) == '"', found.group(2))
            if rule:
                self.breaches.append(f"{name}:{number}: includes {found.group(2)}: {rule}")

    def breach(self, path, parts, quoted, name):
        if parts[0] == "bpf":
            return self.breach_in_bpf(parts[-1], name)
        target = self.resolve(path, name) if quoted else None
        if target:
            return breach_of_target(parts[1], target)
        if quoted and not name.endswith(".skel.h"):
            return "no such file"
        return breach_of_library(parts[1], name)

    def resolve(self, path, name):
        """Where the compiler finds a quoted name, from the root; None outside the tree."""
        for folder in (path.parent, self.root, self.root / "loader"):
            if (folder / name).is_file():
                return (folder / name).resolve().relative_to(self.root.resolve()).as_posix()
        return None

    @staticmethod
    def breach_in_bpf(own, name):
        target = name.removeprefix("bpf/") if name.removeprefix("bpf/") in LADDER else name
        program = own.endswith(".bpf.c")
        if name.endswith(".bpf.c"):
            return "programs never include one another"
        if target in LADDER:
            if program or LADDER.index(target) < LADDER.index(own):
                return None
            return f"{own} stands on a lower rung than {target}"
        if own == "abi.h":
            return None if name == "linux/types.h" else "abi.h includes <linux/types.h> and nothing else"
        if own == "core.h":
            return "core.h includes abi.h and nothing else"
        if name == "vmlinux.h" or re.fullmatch(r"bpf/bpf_\w+\.h", name):
            return None if own in BASE else f"only {', '.join(BASE)} see the kernel's types and libbpf's macros"
        return "bpf/ includes its own ladder, vmlinux.h and libbpf's bpf_*.h only"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    breaches = Tree(parser.parse_args().root).check()
    for each in breaches:
        print(each)
    sys.exit(1 if breaches else 0)


if __name__ == "__main__":
    main()
