#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the fuzzers and runs each, as many at a time as there are CPUs: for FUZZ_SECONDS (60), or with --replay over
the corpus in the tree and some thousand changes of it. The last line is `N passed, N failed, N skipped`.

A crash, a leak, an input that takes 5 s or 512 MB, and a check that does not hold fail, and say which input did it.
What `make fuzz` finds worth keeping gathers in the build folder: tests/fuzz/README.md. MAKE and O are the make program
and the build folder."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = ROOT / "tests/fuzz"

# Bytes of an input at most: enough for all that a target tells apart, few enough for many inputs a second.
MOST_BYTES = {"elf": 4096, "elf_large": 4096, "debug_file": 8192, "go_table": 512, "text": 96, "demangle": 256,
              "words": 48}
MOST_BYTES_ELSE = 768
REPLAY_CHANGES = 2000
OPTIONS = ["-timeout=5", "-rss_limit_mb=512", "-malloc_limit_mb=128", "-print_final_stats=1"]
MORE_OPTIONS = {
    # Where a name of Rust's is cut, a little memory stays behind, a bounded number of times: loader/proc/demangle.cpp.
    "demangle": ["-detect_leaks=0", f"-dict={HERE}/demangle.dict"],
}


def missing_runtime():
    """Why clang++ cannot make fuzzers here, or an empty string."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "probe.cpp"
        source.write_text('extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }\n')
        command = ["clang++", "-fsanitize=fuzzer,address,undefined", "-o", source.with_suffix(""), source]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        except FileNotFoundError:
            return "clang++ is missing"
    said = done.stdout.decode(errors="replace").strip().splitlines()
    return "" if done.returncode == 0 else f"clang++ has no fuzzer runtime ({said[0] if said else 'no reason given'})"


def build(folder, targets):
    make = os.environ.get("MAKE", "make")
    command = [make, "--no-print-directory", f"-j{os.cpu_count()}", "FUZZ=1", f"O={folder}",
               *(f"{folder}/fuzzers/{target}" for target in targets)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def command_of(target, folder, kept, length):
    found = folder / "found" / target
    found.mkdir(parents=True, exist_ok=True)
    return [ROOT / folder / "fuzzers" / target, kept, HERE / "corpus" / target, *OPTIONS, *MORE_OPTIONS.get(target, []),
            f"-max_len={MOST_BYTES.get(target, MOST_BYTES_ELSE)}", f"-artifact_prefix={found}/", *length]


def reason_of(output):
    """The line that says why, and the path of the input."""
    why = re.findall(r"^(?:fuzz: .*|.*ERROR: .*|.*runtime error: .*)$", output, re.MULTILINE)
    path = re.findall(r"Test unit written to (\S+)", output)
    return f"{why[0] if why else 'no reason given'}\n    {path[-1] if path else 'no input was kept'}"


def run(target, folder, seconds):
    """(passed, what to print); `seconds` is none for a replay."""
    with tempfile.TemporaryDirectory() as scratch:
        if seconds is None:
            kept = pathlib.Path(scratch)
            count = sum(1 for _ in (HERE / "corpus" / target).iterdir())
            length, limit = [f"-runs={count + REPLAY_CHANGES}", "-seed=1"], 120
        else:
            kept = folder / "corpus" / target
            kept.mkdir(parents=True, exist_ok=True)
            length, limit = [f"-max_total_time={seconds}"], seconds + 120
        started = time.monotonic()
        # Freed memory is kept for a while, to catch who still uses it; much of it makes small inputs slow.
        leaks = "-detect_leaks=0" not in MORE_OPTIONS.get(target, [])
        given = dict(os.environ, ASAN_OPTIONS=f"quarantine_size_mb=8:detect_leaks={leaks:d}",
                     UBSAN_OPTIONS="print_stacktrace=1")
        try:
            done = subprocess.run(command_of(target, folder, kept, length), env=given, timeout=limit, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired:
            return False, f"{target}: still running after {limit} s"
    output = done.stdout.decode(errors="replace")
    took = time.monotonic() - started
    if done.returncode != 0:
        log = folder / f"{target}.log"
        log.write_text(output)
        return False, f"{target}: {reason_of(output)}\n    {log}"
    inputs = re.findall(r"^stat::number_of_executed_units:\s*(\d+)$", output, re.MULTILINE)
    if not inputs:
        return False, f"{target}: ended without its figures"
    return True, f"{target:<13} {int(inputs[-1]):>9} inputs  {int(inputs[-1]) / max(took, 0.1):>7.0f}/s"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("targets", nargs="*")
    options = parser.parse_args()
    known = sorted(path.stem for path in HERE.glob("*.cpp"))
    unknown = set(options.targets) - set(known)
    if unknown:
        sys.exit(f"fuzz: no target {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    targets = options.targets or known
    reason = missing_runtime()
    if reason:
        print(f"SKIPPED fuzz: {reason}: run scripts/setup.sh test\n0 passed, 0 failed, 1 skipped")
        # Who asks for nothing but fuzzing must see that there was none.
        sys.exit(0 if options.replay else 1)
    folder = ROOT / (os.environ.get("O") or "build") / "fuzz"
    if not build(os.path.relpath(folder, ROOT), targets):
        print(f"FAILED fuzz: does not build\n0 passed, {len(targets)} failed, 0 skipped")
        sys.exit(1)
    seconds = None if options.replay else int(os.environ.get("FUZZ_SECONDS") or 60)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for passed, text in pool.map(lambda target: run(target, folder, seconds), targets):
            failed += not passed
            print(f"  FUZZ     {text}" if passed else f"FAILED {text}", flush=True)
    print(f"{len(targets) - failed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
