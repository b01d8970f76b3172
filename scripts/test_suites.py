#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds and runs the test suites and adds up what they say. The last line is `N passed, N failed, N skipped`.

A suite that cannot run here is skipped by name, with the reason; one that does not build, crashes or hangs has failed.
MAKE and O are the make program and the build folder."""
import ctypes
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BPF_CALL = {"x86_64": 321, "aarch64": 280}
BPF_MAP_CREATE, BPF_MAP_TYPE_ARRAY = 0, 2

DOCTEST = re.compile(r"^\[doctest\] test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed", re.MULTILINE)
DOCTEST_SKIP = re.compile(r"^SKIPPED: ", re.MULTILINE)
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*\n\n(?:OK|FAILED)(?: \((.*)\))?$", re.MULTILINE)
SUMMARY = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclasses.dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other):
        return Count(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


@dataclasses.dataclass
class Suite:
    name: str
    needs: str  # a path without which there is nothing to run
    command: list
    read: object  # output → Count, or None where it has no summary
    targets: tuple = ()  # what make builds first
    settings: tuple = ()  # variables of that make
    privileged: bool = False
    limit_seconds: int = 120


def read_doctest(output):
    """A test case that cannot run on this kernel says so in a line `SKIPPED: why` and then passes as empty."""
    found = DOCTEST.findall(output)
    if not found:
        return None
    _, passed, failed = map(int, found[-1])
    skipped = min(len(DOCTEST_SKIP.findall(output)), passed)
    return Count(passed - skipped, failed, skipped)


def read_unittest(output):
    found = UNITTEST.findall(output)
    if not found:
        return None
    ran, details = int(found[-1][0]), dict(re.findall(r"([a-z ]+)=(\d+)", found[-1][1]))
    details = {name.strip(): int(number) for name, number in details.items()}
    skipped = details.get("skipped", 0)
    # Sub-tests count one by one when they fail, so there may be more failures than tests.
    failed = sum(details.get(name, 0) for name in ("failures", "errors", "unexpected successes"))
    return Count(max(ran - skipped - failed, 0), failed, skipped)


def read_summary(output):
    """Of our own runners: the last line of this file's own form."""
    found = SUMMARY.findall(output)
    return Count(*map(int, found[-1])) if found else None


def judge(count, code, timed_out):
    """What the exit code adds to the summary: a program that died after it, or before, has failed."""
    if count is None:
        return Count(failed=1)
    if (code != 0 or timed_out) and count.failed == 0:
        return count + Count(failed=1)
    return count


def why_unprivileged():
    """Why BPF programs cannot be loaded here, or an empty string."""
    if os.geteuid() != 0:
        return "needs root"
    if not pathlib.Path("/sys/kernel/btf/vmlinux").exists():
        return "this kernel has no BTF (/sys/kernel/btf/vmlinux)"
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = (ctypes.c_uint32 * 32)(BPF_MAP_TYPE_ARRAY, 4, 8, 1)
    number = BPF_CALL.get(os.uname().machine)
    if number is None:
        return f"the tests do not know this architecture ({os.uname().machine})"
    fd = libc.syscall(number, BPF_MAP_CREATE, ctypes.byref(attributes), ctypes.sizeof(attributes))
    if fd < 0:
        return f"this kernel refuses BPF maps: {os.strerror(ctypes.get_errno())}"
    os.close(fd)
    return ""


def suites(build):
    unittest = [sys.executable, "-m", "unittest", "discover", "--verbose", "--pattern", "test_*.py", "--start-directory"]
    sanitized = f"{build}/san"
    return [
        Suite("house", "tests/house", [*unittest, "tests/house"], read_unittest),
        Suite("unit", "tests/unit/main.cpp", [f"{sanitized}/tests/unit"], read_doctest, (f"{sanitized}/tests/unit",),
              (f"O={sanitized}", "SAN=1"), limit_seconds=1200),
        # After the unit tests, whose files it reads.
        Suite("otlp", "tests/otlp", [*unittest, "tests/otlp", "--top-level-directory", "tests"], read_unittest,
              limit_seconds=240),
        # Builds for itself what it needs: the loader once more, by clang.
        Suite("fuzz", "tests/fuzz/run.py", [sys.executable, "tests/fuzz/run.py", "--replay"], read_summary,
              limit_seconds=900),
        Suite("bpf", "tests/bpf", [f"{build}/tests/bpf"], read_doctest, (f"{build}/tests/bpf",), privileged=True),
        # The same tests of the programs for older kernels, which newer ones run as well.
        Suite("bpf-no-fetch", "tests/bpf", ["env", "SPANFOLD_TEST_NO_FETCH=1", f"{build}/tests/bpf"], read_doctest,
              (f"{build}/tests/bpf",), privileged=True),
        Suite("e2e", "tests/e2e", [*unittest, "tests/e2e"], read_unittest, ("all", "workloads"), privileged=True,
              limit_seconds=1800),
    ]


def kept_files(build):
    """Where the unit tests leave their files for the validator; a full path, whatever folder they run in."""
    return str((ROOT / build / "unit-files").resolve())


def environment(build):
    new = dict(os.environ, O=build, SPANFOLD=f"{build}/spanfold", WORKLOADS=f"{build}/workloads",
               SPANFOLD_KEEP_FILES=kept_files(build), PYTHONDONTWRITEBYTECODE="1", ASAN_OPTIONS="detect_leaks=1:strict_string_checks=1",
               UBSAN_OPTIONS="print_stacktrace=1")
    # The job server's descriptors do not come through here; variables given to make do.
    flags = re.sub(r"(^|\s)(-?j\d*|--jobserver-\S+)(?=\s|$)", " ", new.get("MAKEFLAGS", ""))
    new["MAKEFLAGS"] = re.sub(r"^\s*w(?=\s|$)", "", flags).strip()
    return new


def build_targets(suite, build, given):
    if not suite.targets:
        return True
    make = os.environ.get("MAKE", "make")
    command = [make, "--no-print-directory", f"-j{os.cpu_count()}", f"O={build}", *suite.settings, *suite.targets]
    return subprocess.run(command, cwd=ROOT, env=given, check=False).returncode == 0


def run(command, given, limit_seconds):
    """Runs it with its output shown and kept: (exit code, output, whether it ran out of time)."""
    process = subprocess.Popen(command, cwd=ROOT, env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
    timed_out = threading.Event()

    def stop():
        timed_out.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(limit_seconds, stop)
    timer.start()
    lines = []
    for line in process.stdout:
        text = line.decode(errors="replace")
        sys.stdout.write(text)
        sys.stdout.flush()
        lines.append(COLOUR.sub("", text))
    process.stdout.close()
    code = process.wait()
    timer.cancel()
    return code, "".join(lines), timed_out.is_set()


def run_suite(suite, build):
    if not (ROOT / suite.needs).exists():
        print(f"SKIPPED {suite.name}: there is no {suite.needs}")
        return Count(skipped=1)
    reason = why_unprivileged() if suite.privileged else ""
    if reason:
        print(f"SKIPPED {suite.name}: {reason}")
        return Count(skipped=1)
    given = environment(build)
    if not build_targets(suite, build, given):
        print(f"FAILED {suite.name}: does not build")
        return Count(failed=1)
    code, output, timed_out = run(suite.command, given, suite.limit_seconds)
    if timed_out:
        print(f"FAILED {suite.name}: still running after {suite.limit_seconds} s")
    elif code < 0:
        print(f"FAILED {suite.name}: killed by {signal.Signals(-code).name}")
    return judge(suite.read(output), code, timed_out)


def main():
    build = os.environ.get("O") or "build"
    known = suites(build)
    wanted = sys.argv[1:] or [suite.name for suite in known]
    unknown = set(wanted) - {suite.name for suite in known}
    if unknown:
        sys.exit(f"test: no suite {', '.join(sorted(unknown))}; there are {', '.join(suite.name for suite in known)}")
    if "unit" in wanted:
        shutil.rmtree(kept_files(build), ignore_errors=True)
    total, lines = Count(), []
    for suite in known:
        if suite.name not in wanted:
            continue
        print(f"== {suite.name}", flush=True)
        started = time.monotonic()
        count = run_suite(suite, build)
        total += count
        lines.append(f"  TEST     {suite.name:<8} {count}  {time.monotonic() - started:.0f} s")
    print("\n".join(lines))
    print(total)
    sys.exit(1 if total.failed else 0)


if __name__ == "__main__":
    main()
