#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes compile_commands.json: OUTPUT 'COMMAND' FILE… [--and 'COMMAND' FILE…]. Leaves the file alone when nothing
changed, so that editors do not index anew."""
import json
import os
import pathlib
import sys


def entries(words):
    while words:
        command, files = words[0], words[1:]
        if "--and" in files:
            end = files.index("--and")
            files, words = files[:end], files[end + 1:]
        else:
            words = []
        for name in files:
            yield {"directory": os.getcwd(), "file": name, "command": f"{command} -c {name}"}


def main():
    output = pathlib.Path(sys.argv[1])
    text = json.dumps(list(entries(sys.argv[2:])), indent=1) + "\n"
    if not output.exists() or output.read_text() != text:
        output.write_text(text)


if __name__ == "__main__":
    main()
