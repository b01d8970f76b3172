# SPDX-License-Identifier: Apache-2.0
"""Programs of another Debian than the host's, in its files, profiled from outside: CPython 3.13, which names its functions
itself, and redis. Their names are those of *their* files, which the host's files of the same names are not."""

import pathlib
import socket
import subprocess
import time
import unittest

import analysis
import frames
import harness
import jit_worker
import truth
import work_case

SUITE, PACKAGES = "trixie", ("python3-minimal", "redis-server")
# The root is the user's cache: what runs in it writes to memory of its own.
ENTER = 'mount -t tmpfs none "$1/tmp" && mount -t proc proc "$1/proc" && exec chroot "$@"'
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh")


class ForeignCase(work_case.WorkCase):
    @classmethod
    def set_up_stage(cls):
        script = harness.ROOT / "scripts/fetch-root.sh"
        done = subprocess.run([script, SUITE, *PACKAGES], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False, timeout=400)
        if done.returncode != 0:
            raise unittest.SkipTest(f"no root of Debian {SUITE}: {done.stderr.strip()}")
        cls.root = pathlib.Path(done.stdout.strip())

    def check_frames(self, recording, perf_map=""):
        """Names are those of the files in the root. Gives those of the files in it: file to names."""
        checker = truth.Checker(self.root)
        checker.tell("[anon jit]", truth.PerfMap(perf_map))
        found = frames.frames_of(recording.files)
        checker.check(found)
        print(f"\n{checker}")
        names = {}
        for frame in found:
            names.setdefault(frame.file.rpartition("/")[2], set()).add(frame.name)
        return names

    def check_libc_is_not_the_hosts(self, recording):
        """Our names of libc are no accident: the host's libc has others at these addresses."""
        host = truth.Elf(next(pathlib.Path("/").glob("lib/*-linux-gnu/libc.so.6")).resolve())
        named = [each for each in frames.frames_of(recording.files) if each.file.endswith("/libc.so.6") and each.name]
        self.assertTrue(named)
        self.assertTrue(any(host.why_not(frame.address, frame.name) for frame in named), "the host has the same libc")


PYTHON = """
import os, sys
def leaf_alpha(): pass
def leaf_beta(): pass
def work(leaf):
    for _ in range(100):
        leaf(); leaf(); leaf(); leaf(); leaf(); leaf(); leaf(); leaf(); leaf(); leaf()
    os.getppid()
for line in sys.stdin:
    name, units = line.split()
    for _ in range(10 * int(units)):
        work(leaf_alpha if name == "alpha" else leaf_beta)
    print("done", flush=True)
"""


class Python(ForeignCase):
    UNITS = 1200

    def test_names(self):
        worker = self.worker(*NAMESPACES, self.root, "python3", "-X", "perf", "-c", PYTHON)
        worker.spend("alpha", 1)
        worker.pid = jit_worker.first_child(worker.pid, "python3")
        inner = pathlib.Path(f"/proc/{worker.pid}/status").read_text().split("NSpid:")[1].split("\n")[0].split()[-1]
        # Debian's CPython keeps no frame pointers, so a function of Python shows while its own trampoline runs: in 1 of 100.
        running, tid = self.begin(worker, freq="4999")
        self.spend(worker, tid)
        perf_map = pathlib.Path(f"/proc/{worker.pid}/root/tmp/perf-{inner}.map").read_text()
        worker.finish()
        recording = self.stage.finish(running).check()
        names = self.check_frames(recording, perf_map)
        self.assertLess({"_PyEval_EvalFrameDefault", "PyObject_Vectorcall"}, names["python3.13"])
        self.assertIn("getppid", names["libc.so.6"])
        self.check_libc_is_not_the_hosts(recording)
        kinds = {1: {"leaf_alpha"}, 2: {"leaf_beta"}}
        counts = analysis.check_right_spans(recording.rows(), kinds)
        for kind, own in kinds.items():
            self.assertGreater(sum(counts[kind][name] for name in own), 5, counts)
        types = frames.types_of(recording.files)
        self.assertEqual({kind for name in types if name.startswith("leaf_") for kind in types[name]}, {"cpython"})


class Redis(jit_worker.Worker):
    """A server of which one command is alpha, another one beta."""

    # None of them goes through libc's sort, which keeps no frame pointers.
    COMMANDS = {"alpha": 20 * [("LPOS", "list", "nothing")], "beta": [("SUNIONSTORE", "union", "set", "set")]}
    FILL = "for i = 1, 20000 do redis.call('rpush', 'list', i * 7919 % 20011) redis.call('sadd', 'set', 'm' .. i) end return 1"

    def connect(self, seconds=20):
        path, end = f"/proc/{self.pid}/root/tmp/redis", time.monotonic() + seconds
        self.socket = socket.socket(socket.AF_UNIX)
        while self.socket.connect_ex(path) != 0:
            if time.monotonic() > end:
                raise AssertionError(f"nobody listens at {path}")
            time.sleep(0.05)
        self.answers = self.socket.makefile("rb")
        self.ask("EVAL", self.FILL, "0")

    def ask(self, *words):
        self.socket.sendall(b"".join([b"*%d\r\n" % len(words), *(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words)]))
        answer = self.answers.readline()
        if not answer.startswith((b":", b"$-1")):
            raise AssertionError(f"redis answers {answer!r} to {words}")

    def spend(self, name, units):
        for command in units * self.COMMANDS[name]:
            self.ask(*command)

    def close(self):
        super().close()
        if hasattr(self, "socket"):
            self.answers.close()
            self.socket.close()


class RedisServer(ForeignCase):
    UNITS = 40

    def test_names(self):
        options = ("--port", "0", "--unixsocket", "/tmp/redis", "--save", "", "--appendonly", "no")
        command = (*NAMESPACES, self.root, "redis-server", *options)
        worker = Redis(*command, cwd=self.stage.folder)
        self.addCleanup(worker.close)
        worker.pid = jit_worker.first_child(worker.pid, "redis-server")
        worker.connect()
        running, tid = self.begin(worker)
        self.spend(worker, tid)
        worker.close()
        recording = self.stage.finish(running).check()
        names = self.check_frames(recording)
        self.assertLess({"call", "processCommand", "aeMain", "main"}, names["redis-check-rdb"])  # redis-server is a link to it
        kinds = {1: {"lposCommand"}, 2: {"sunionDiffGenericCommand"}}
        counts = analysis.check_right_spans(recording.rows(), kinds)
        for kind, own in kinds.items():
            self.assertGreater(sum(counts[kind][name] for name in own), 0.5 * counts[kind].total(), counts)
