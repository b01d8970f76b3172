# SPDX-License-Identifier: Apache-2.0
"""Code that is compiled while it runs: names and types of its frames, by what Node, the JVM and CPython write."""

import os
import pathlib
import re
import shutil
import subprocess

import analysis
import harness
import jit_worker
import kernel
from otlp import check

FREQ = "499"
TRACE = bytes.fromhex("0af7651916cd43dd8448eb211c80319c")
UNITS, TIMES = 300, 2
FUNCTIONS = {1: "alpha", 2: "beta"}


def span_id(kind):
    return bytes([kind, 0, 0, 0, 0, 0, 0, 1])


def frame_types(files):
    """Names to the types of their frames, out of the dictionaries."""
    types = {}
    for path in files:
        tables = {}
        for dictionary, _ in check.load(path):
            for name, rows in dictionary.items():
                tables.setdefault(name, []).extend(rows)
        strings = tables["string"]
        for location in tables["location"]:
            kinds = [
                tables["attribute"][index]["value"]["string_value"]
                for index in location["attribute_indices"]
                if strings[tables["attribute"][index]["key_strindex"]] == "profile.frame.type"
            ]
            for line in location["lines"]:
                name = strings[tables["function"][line["function_index"]]["name_strindex"]]
                types.setdefault(name, set()).update(kinds)
    return types


class JitCase(harness.StageCase):
    def setUp(self):
        self.stage.new_bpffs()
        self.stage.ctx_map.parent.mkdir()
        fd = kernel.create_map()
        kernel.pin(fd, self.stage.ctx_map)
        os.close(fd)

    def worker(self, *command):
        worker = jit_worker.Worker(*command, cwd=self.stage.folder)  # some leave files where they start
        self.addCleanup(worker.close)
        return worker

    def record(self, worker, flush="1"):
        """Spans around known functions: alpha in one, beta in the other. A long flush ends with the process."""
        tid = worker.warm_up(FUNCTIONS.values())
        entries = kernel.ContextMap(self.stage.ctx_map)
        self.addCleanup(entries.close)
        running = self.stage.begin_record("-F", FREQ, "-p", worker.pid, "--flush", flush)
        kernel.await_recorder(running.pid)
        for kind, name in list(FUNCTIONS.items()) * TIMES:
            entries.set(worker.pid, tid, TRACE, span_id(kind))
            worker.spend(name, UNITS)
            entries.clear(worker.pid, tid)
        worker.finish()
        return self.stage.finish(running).check()

    def check_names(self, recording, least_share, pattern):
        """Nearly all samples of a span show its function, none that of the other. Gives the frames that were named."""
        rows = analysis.span_rows(recording.rows())
        self.assertEqual({analysis.kind_of(row) for row in rows}, set(FUNCTIONS))
        names = set()
        for row in rows:
            own = FUNCTIONS[analysis.kind_of(row)]
            named = 0
            for stack in row["stacks"]:
                found = [match for frame in stack["frames"] if (match := re.fullmatch(pattern, frame))]
                self.assertLessEqual({match[1] for match in found}, {own}, stack["frames"])
                named += stack["count"] if found else 0
                names.update(match[0] for match in found)
            self.assertGreater(named, least_share * harness.samples(row), [stack["frames"][:4] for stack in row["stacks"]])
        return names

    def check_types(self, recording, names, kind):
        types = frame_types(recording.files)
        for name in names:
            self.assertEqual(types[name], {kind}, name)


class Node(JitCase):
    # What is inlined has no frame of its own.
    OPTIONS = ("--interpreted-frames-native-stack", "--no-turbo-inlining")
    PATTERN = r"(alpha|beta) .+:\d+:\d+"

    def setUp(self):
        super().setUp()
        if shutil.which("node") is None:
            self.skipTest("node is not installed")
        self.script = self.stage.folder / "work.js"
        self.script.write_text(jit_worker.NODE_MAIN)

    def test_perf_map(self):
        worker = self.worker("node", "--perf-basic-prof", *self.OPTIONS, self.script)
        self.addCleanup(pathlib.Path(f"/tmp/perf-{worker.pid}.map").unlink)
        recording = self.record(worker)
        names = self.check_names(recording, 0.9, self.PATTERN)
        self.check_types(recording, names, "v8js")
        self.assertEqual(len(names), 2, "a function is one, whatever compiled it")
        self.assertIn(f"outer {self.script}:", harness.report(recording.files, "--by", "stack", "--format", "folded"))
        self.assertNotIn("has no names", recording.stderr)

    def test_dump(self):
        worker = self.worker("node", "--perf-prof", *self.OPTIONS, self.script)
        # V8 writes its dump when it is two megabytes longer, or at its end.
        recording = self.record(worker, flush="60")
        self.check_types(recording, self.check_names(recording, 0.9, self.PATTERN), "v8js")

    def test_without_a_log(self):
        recording = self.record(self.worker("node", self.script))
        frames = {frame for row in recording.rows() for stack in row["stacks"] for frame in stack["frames"]}
        self.assertTrue(any(frame.startswith("[anon jit]+0x") for frame in frames), frames)
        self.assertFalse(any(re.fullmatch(self.PATTERN, frame) for frame in frames), frames)
        self.assertEqual(len(re.findall(r"generated code of node .* has no names: .*--perf-basic-prof", recording.stderr)), 1)

    def test_in_namespaces_of_its_own_beside_a_decoy(self):
        shell = "mount -t tmpfs none /tmp && exec node \"$@\""
        unshare = ("unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "sh", "-c", shell, "sh")
        worker = self.worker(*unshare, "--perf-basic-prof", *self.OPTIONS, "-e", jit_worker.NODE_THREAD)
        worker.spend("alpha", 50)
        worker.pid = jit_worker.first_child(worker.pid)
        decoy = pathlib.Path(f"/tmp/perf-{worker.pid}.map")
        ranges = re.findall(r"^(\w+)-(\w+) r.xp \S+ \S+ 0 *$", pathlib.Path(f"/proc/{worker.pid}/maps").read_text(), re.M)
        self.assertTrue(ranges)
        decoy.write_text("".join(f"{start} {int(end, 16) - int(start, 16):x} JS:*decoy /x.js:1:1\n" for start, end in ranges))
        self.addCleanup(decoy.unlink)
        recording = self.record(worker)
        self.check_names(recording, 0.9, self.PATTERN)
        self.assertNotIn("decoy", harness.report(recording.files, "--by", "stack", "--format", "folded"))


class Jvm(JitCase):
    def test_perf_map(self):
        for program in ("java", "javac", "jcmd"):
            if shutil.which(program) is None:
                self.skipTest(f"{program} is not installed")
        (self.stage.folder / "Work.java").write_text(jit_worker.JAVA)
        subprocess.run(["javac", "-d", self.stage.folder, self.stage.folder / "Work.java"], check=True, timeout=120)
        alone = ("-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Work::*")
        worker = self.worker("java", "-XX:+PreserveFramePointer", *alone, "-cp", self.stage.folder, "Work")
        for _ in range(3):
            worker.warm_up(FUNCTIONS.values())  # until both are compiled for good
        code, out, err = harness.run("jcmd", worker.pid, "Compiler.perfmap")
        if code != 0:
            self.skipTest(f"this JVM writes no perf map: {out}{err}")
        self.addCleanup(pathlib.Path(f"/tmp/perf-{worker.pid}.map").unlink)
        recording = self.record(worker)
        names = self.check_names(recording, 0.8, r"long Work\.(alpha|beta)\(int\)")
        self.check_types(recording, names, "jvm")


class Python(JitCase):
    def test_perf_map(self):
        python, reason = jit_worker.python_with_perf()
        if not python:
            self.skipTest(reason)
        worker = self.worker(python, "-X", "perf", "-c", jit_worker.PYTHON)
        self.addCleanup(pathlib.Path(f"/tmp/perf-{worker.pid}.map").unlink)
        recording = self.record(worker)
        names = self.check_names(recording, 0.9, r"(alpha|beta):<string>")
        self.check_types(recording, names, "cpython")


class Vdso(JitCase):
    """Not compiled while it runs, but memory all the same."""

    PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
static int (*now)(clockid_t, struct timespec*);
__attribute__((noinline)) long alpha(long turns) {
  struct timespec time;
  long sum = 0;
  while (turns-- > 0) sum += now(CLOCK_MONOTONIC, &time) + time.tv_nsec;
  return sum;
}
__attribute__((noinline)) long caller(long turns) { return alpha(turns) + 1; }
int main(void) {
  char name[64];
  int units;
  now = dlsym(dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD), "__vdso_clock_gettime");
  while (now && scanf("%63s %d", name, &units) == 2) {
    while (units-- > 0) caller(30000);
    puts("done");
    fflush(stdout);
  }
  return 0;
}
"""

    def test_leaf_and_callers_have_names(self):
        if os.uname().machine != "x86_64":
            self.skipTest("the program asks for the x86-64 name of the function")
        source, program = self.stage.folder / "vdso.c", self.stage.folder / "vdso"
        source.write_text(self.PROGRAM)
        subprocess.run(["gcc", "-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-o", program, source],
                       check=True, timeout=60)
        recording = self.record(self.worker(program))
        stacks = [stack for row in analysis.span_rows(recording.rows()) for stack in row["stacks"]]
        total = sum(stack["count"] for stack in stacks)
        in_vdso = [stack for stack in stacks if any("vdso_clock_gettime" in frame for frame in stack["frames"])]
        self.assertGreater(sum(stack["count"] for stack in in_vdso), 0.5 * total, stacks)
        for stack in in_vdso:
            self.assertIn("caller", [analysis.name_of(frame) for frame in stack["frames"]])
        self.check_types(recording, {"__vdso_clock_gettime"}, "native")
