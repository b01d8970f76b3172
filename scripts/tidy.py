#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy on every file of compile_commands.json, in parallel. What passed is not run again until the file, a
header of ours that it includes, its flags or the configuration change."""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def include_folders(words):
    """Folders of -I and -isystem in a command."""
    folders = []
    for index, word in enumerate(words):
        if word == "-isystem":
            folders.append(pathlib.Path(words[index + 1]))
        elif word.startswith("-I"):
            folders.append(pathlib.Path(word[2:]))
    return folders


def closure(path, folders, seen):
    """All files that `path` includes by quotes, and their own, in `seen`."""
    if path in seen:
        return
    seen.add(path)
    for name in INCLUDE.findall(path.read_text(errors="replace")):
        for folder in (path.parent, *folders):
            if (folder / name).is_file():
                closure(folder / name, folders, seen)
                break


def fingerprint(entry, version):
    path = pathlib.Path(entry["file"])
    seen = set()
    closure(path, include_folders(shlex.split(entry["command"])), seen)
    digest = hashlib.sha256(f"{version}\0{entry['command']}".encode())
    for folder in path.parents:
        if (folder / ".clang-tidy").is_file():
            seen.add(folder / ".clang-tidy")
    for each in sorted(seen):
        digest.update(f"\0{each}\0".encode())
        digest.update(each.read_bytes())
    return digest.hexdigest()


# The static analyzer in its shallow mode costs a tenth of what it costs else; a whole run must stay within minutes.
OPTIONS = ["--quiet", "-p", ".", "--extra-arg=-Wno-unknown-warning-option",
           # g++ knows a defaulted <=> from a null pointer, clang 14 does not.
           "--extra-arg=-Wno-zero-as-null-pointer-constant",
           *(f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", "mode=shallow"))]


def run(entry, passed):
    started = time.monotonic()
    done = subprocess.run(["clang-tidy", *OPTIONS, entry["file"]], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False)
    # Standard error counts suppressed warnings; it matters only where nothing else tells what failed.
    text = done.stdout.decode() + (done.stderr.decode() if done.returncode else "")
    if done.returncode == 0:
        passed.touch()
    return entry["file"], done.returncode, text, time.monotonic() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--times", action="store_true", help="say how long each file took")
    parser.add_argument("files", nargs="*", help="only these")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    version = subprocess.run(["clang-tidy", "--version"], check=True, stdout=subprocess.PIPE).stdout.decode()
    commands = json.loads(pathlib.Path("compile_commands.json").read_text())
    waiting = []
    for entry in commands:
        if options.files and entry["file"] not in options.files:
            continue
        passed = options.cache / fingerprint(entry, version)
        if not passed.exists():
            waiting.append((entry, passed))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, code, text, seconds in pool.map(lambda each: run(*each), waiting):
            if options.times:
                print(f"{seconds:6.1f} s {name}", file=sys.stderr)
            if code != 0:
                failed += 1
                print(text, end="")
    print(f"clang-tidy: {len(waiting)} files looked at, {failed} failed", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
