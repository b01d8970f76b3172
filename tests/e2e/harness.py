# SPDX-License-Identifier: Apache-2.0
"""Runs spanfold and the workloads on a BPF file system of the test's own, and checks what every recording must hold.

SPANFOLD and WORKLOADS name the binary and the folder of the workloads (build/spanfold, build/workloads)."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import otlp  # noqa: E402  (the validator; it lives beside this folder)

SPANFOLD = pathlib.Path(os.environ.get("SPANFOLD", ROOT / "build/spanfold")).resolve()
WORKLOADS = pathlib.Path(os.environ.get("WORKLOADS", ROOT / "build/workloads")).resolve()
EVERYTHING = "1000000000"  # rows: none is left out
FATES = ("ticks", "in_span", "background", "idle", "filtered", "missed")


class Accounting:
    """The closing line of a recording."""

    LINE = re.compile(r"^(?:spanfold: )?ticks (\d+) = (.+?); missed (\d+)(?:; (.+))?$", re.MULTILINE)

    def __init__(self, stderr):
        lines = self.LINE.findall(stderr)
        if len(lines) != 1:
            raise AssertionError(f"one accounting line expected, {len(lines)} found in:\n{stderr}")
        ticks, terms, missed, self.rest = lines[0]
        self.line = f"ticks {ticks} = {terms}; missed {missed}"
        self.ticks, self.missed = int(ticks), int(missed)
        self.reasons = {name: int(count) for name, count in re.findall(r"(\w+) (\d+)(?=[,)])", terms)}
        fates = dict(re.findall(r"(?:^| \+ )([a-z ]+) (\d+)", terms))
        self.in_span = int(fates.pop("in span"))
        self.background = int(fates.pop("background"))
        self.idle = int(fates.pop("idle"))
        self.filtered = int(fates.pop("filtered", 0))
        self.dropped = int(fates.pop("dropped", 0))
        if fates:
            raise AssertionError(f"unknown fates {fates} in: {self.line}")

    def check(self):
        total = self.in_span + self.background + self.idle + self.filtered + self.dropped
        if self.ticks != total:
            raise AssertionError(f"{self.ticks} ticks, but their fates add up to {total}: {self.line}")
        if self.dropped != sum(self.reasons.values()):
            raise AssertionError(f"reasons do not add up to {self.dropped}: {self.line}")


class Running:
    """A process that a test started, its output in files so that it never waits for a reader."""

    def __init__(self, command, folder, stdout=None, env=None):
        self.command = [str(word) for word in command]
        self._out = tempfile.NamedTemporaryFile(dir=folder, prefix="out-", delete=False)
        self._err = tempfile.NamedTemporaryFile(dir=folder, prefix="err-", delete=False)
        self.started = time.time()
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=self._out if stdout is None else stdout,
            stderr=self._err,
            env={**os.environ, **(env or {})},
            # What runs in the background of a shell ignores it, and so do its children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.pid = self.process.pid

    def out(self):
        return pathlib.Path(self._out.name).read_text(errors="replace")

    def err(self):
        return pathlib.Path(self._err.name).read_text(errors="replace")

    def running(self):
        return self.process.poll() is None

    def await_line(self, start, timeout=20):
        """The first line of standard output that starts so."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            for line in self.out().splitlines(keepends=True):
                if line.startswith(start) and line.endswith("\n"):
                    return line.strip()
            if not self.running():
                break
            time.sleep(0.02)
        raise AssertionError(f"no line {start!r} from {self.command}:\n{self.out()}{self.err()}")

    def await_error(self, text, count=1, timeout=60):
        """Waits for a text on standard error."""
        end = time.monotonic() + timeout
        while self.err().count(text) < count:
            if time.monotonic() > end or not self.running():
                raise AssertionError(f"no {text!r} from {self.command}:\n{self.err()}")
            time.sleep(0.02)

    def send(self, number):
        if self.running():
            self.process.send_signal(number)

    def wait(self, timeout=60):
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"still running after {timeout} s: {self.command}\n{self.err()}") from None
        finally:
            self.seconds = time.time() - self.started
        self._out.close()
        self._err.close()
        return code

    def stop(self, number=signal.SIGTERM, timeout=20):
        self.send(number)
        self.send(signal.SIGCONT)
        return self.wait(timeout)


class Recording:
    """What one `spanfold record` left: exit code, output, and the profiles, each checked."""

    def __init__(self, running, code, output):
        self.code, self.stdout, self.stderr = code, running.out(), running.err()
        self.seconds, self.command = running.seconds, running.command
        self.output = output
        self.files = profiles(output)

    def check(self, code=0):
        """Exit code, identity, and every file valid, self-contained and adding up to the closing line."""
        if self.code != code:
            raise AssertionError(f"exit {self.code}, not {code}, from {self.command}:\n{self.stderr}")
        self.accounting = Accounting(self.stderr)
        self.accounting.check()
        if not self.files:
            raise AssertionError(f"no profile written by {self.command}:\n{self.stderr}")
        check_files(self.files, self.accounting)
        return self

    def rows(self, by="span", *filters):
        return report_json(self.files, "--by", by, *filters)["rows"]


def profiles(output):
    if output is None or not output.exists():
        return []
    return sorted(path for path in output.iterdir() if path.is_file()) if output.is_dir() else [output]


def check_files(files, accounting):
    """Each file passes the validator and adds up by itself; all files together say what the closing line says."""
    total = {}
    for path in files:
        problems = otlp.validate(path)
        if problems:
            raise AssertionError(f"{path.name} breaks rules of OTLP profiles:\n" + "\n".join(map(str, problems)))
        for key, value in file_accounting(path).items():
            total[key] = total.get(key, 0) + value
    said = {name: getattr(accounting, name) for name in (*FATES, "dropped")}
    if total != said:
        raise AssertionError(f"files add up to {total}, the closing line says {said}")


def file_accounting(path):
    """The accounting that a file carries, after checking that it adds up and is what its samples are."""
    report = report_json([path], "--by", "span")
    found = report["accounting"]
    figures = {name: found.get(name, 0) for name in FATES}
    figures["dropped"] = sum(found.get("dropped", {}).values())
    fates = sum(figures[name] for name in ("in_span", "background", "idle", "filtered", "dropped"))
    if figures["ticks"] != fates:
        raise AssertionError(f"{path.name}: {figures['ticks']} ticks, but their fates add up to {fates}")
    totals = otlp.totals(path)
    linked, unlinked = sum(totals["spans"].values()), sum(totals["background"].values())
    if (linked, unlinked) != (figures["in_span"], figures["background"]):
        raise AssertionError(f"{path.name} holds {linked} samples in spans, {unlinked} outside, it claims {figures}")
    shown = {(row["trace_id"], row["span_id"]): samples(row) for row in report["rows"] if "span_id" in row}
    if {span: count for span, count in shown.items() if count > 0} != totals["spans"]:  # others have times only
        raise AssertionError(f"{path.name}: the report shows other samples of spans than a plain decoder finds")
    return figures


def samples(row):
    return row.get("on_cpu", {}).get("samples", 0)


def spanfold(*arguments, timeout=60, **kwargs):
    """run() of spanfold."""
    return run(SPANFOLD, *arguments, timeout=timeout, **kwargs)


def run(*command, timeout=60, **kwargs):
    """Runs a command to its end: (exit code, stdout, stderr)."""
    words = [str(word) for word in command]
    kwargs = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": timeout, **kwargs}
    done = subprocess.run(words, check=False, **kwargs)
    try:
        return done.returncode, done.stdout.decode(), done.stderr.decode()
    except UnicodeDecodeError as error:
        raise AssertionError(f"not valid UTF-8 from {words}: {done.stdout + done.stderr}") from error


def report(files, *arguments):
    code, out, err = spanfold("report", *files, *arguments)
    if code != 0:
        raise AssertionError(f"report {arguments} of {[path.name for path in files]} exits {code}: {err}")
    return out


def report_json(files, *arguments):
    return json.loads(report(files, "--format", "json", "--top", EVERYTHING, *arguments))


def read_lines(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]


def workload(name, *options):
    """The words of a command."""
    return [WORKLOADS / name, *options]


def resident_kib(pid):
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")), 0)


class Stage:
    """A folder, a BPF file system in it, and the processes that a test case started."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="spanfold-e2e-"))
        self.folder.chmod(0o755)  # some tests run as nobody
        self.bpffs = self.folder / "bpf"
        self.ctx_map = self.bpffs / "otel/traces_ctx_v1"
        self._running = []
        self._recordings = 0
        self.bpffs.mkdir()
        mount = subprocess.run(["mount", "-t", "bpf", "bpf", self.bpffs], capture_output=True, text=True, check=False)
        if mount.returncode != 0:
            shutil.rmtree(self.folder)
            raise unittest.SkipTest(f"no BPF file system here: {mount.stderr.strip()}")

    def close(self):
        for running in reversed(self._running):
            if running.running():
                running.stop(signal.SIGKILL)
        subprocess.run(["umount", self.bpffs], check=True)
        shutil.rmtree(self.folder)

    def new_bpffs(self):
        """Forgets all pins, so that the next context map is a new one."""
        subprocess.run(["umount", self.bpffs], check=True)
        subprocess.run(["mount", "-t", "bpf", "bpf", self.bpffs], check=True)

    def start(self, *command, ready=None, **kwargs):
        running = Running(command, self.folder, **kwargs)
        self._running.append(running)
        if ready is not None:
            running.await_line(ready)
        return running

    def start_writer(self, *options, binaries):
        names = [word for name in binaries for word in ("--binary", WORKLOADS / name)]
        return self.start_workload("writer", *names, "--ctx-map", self.ctx_map, *options, ready="ready")

    def start_workload(self, name, *options, **kwargs):
        return self.start(*workload(name, *options), **kwargs)

    def start_spanfold(self, command, *options, **kwargs):
        """Options as they are, but for the context map: it is the stage's."""
        return self.start(SPANFOLD, command, "--ctx-map", self.ctx_map, *options, **kwargs)

    def begin_record(self, *options, output=None, command=(), **kwargs):
        """Starts recording into `output` below the stage's folder (a trailing slash makes it a folder)."""
        self._recordings += 1
        where = f"{self.folder}/{output or f'{self._recordings}.otlp'}"
        running = self.start_spanfold("record", "-o", where, *options, *(["--", *command] if command else []), **kwargs)
        running.output = pathlib.Path(where)
        return running

    def finish(self, running, timeout=60):
        code = running.wait(timeout)
        return Recording(running, code, running.output)

    def record(self, *options, timeout=60, **kwargs):
        return self.finish(self.begin_record(*options, **kwargs), timeout)


class StageCase(unittest.TestCase):
    """A test case with one stage for all of its tests."""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root: BPF programs are loaded and a BPF file system is mounted")
        for path in (SPANFOLD, WORKLOADS / "writer"):
            if not path.exists():
                raise AssertionError(f"{path} is missing: run `make all workloads`")
        cls.stage = Stage()
        cls.addClassCleanup(cls.stage.close)
        cls.set_up_stage()

    @classmethod
    def set_up_stage(cls):
        """For what the tests of a case share, a recording above all."""
