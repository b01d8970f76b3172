# SPDX-License-Identifier: Apache-2.0
"""Code that is compiled while it runs: names and types of its frames, by what Node, the JVM and CPython write."""

import os
import pathlib
import re
import shutil
import subprocess

import analysis
import frames
import harness
import jit_worker
import truth
import work_case


class JitCase(work_case.WorkCase):
    def check_types(self, recording, names, kind):
        types = frames.types_of(recording.files)
        for name in names:
            self.assertEqual(types[name], {kind}, name)

    def check_truth(self, recording, perf_map):
        """Every name is what the perf map says of its address, or the symbols of the file that it lies in."""
        checker = truth.Checker()
        checker.tell("[anon jit]", truth.PerfMap(perf_map.read_text()))
        checker.check(frames.frames_of(recording.files))
        self.assertGreater(checker.compared["[anon jit]"], 5)
        print(f"\n{checker}")


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
        perf_map = pathlib.Path(f"/tmp/perf-{worker.pid}.map")
        self.addCleanup(perf_map.unlink)
        recording = self.record(worker)
        self.check_truth(recording, perf_map)
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
        shown = {frame for row in recording.rows() for stack in row["stacks"] for frame in stack["frames"]}
        self.assertTrue(any(frame.startswith("[anon jit]+0x") for frame in shown), shown)
        self.assertFalse(any(re.fullmatch(self.PATTERN, frame) for frame in shown), shown)
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
            worker.warm_up(work_case.FUNCTIONS.values())  # until both are compiled for good
        code, out, err = harness.run("jcmd", worker.pid, "Compiler.perfmap")
        if code != 0:
            self.skipTest(f"this JVM writes no perf map: {out}{err}")
        perf_map = pathlib.Path(f"/tmp/perf-{worker.pid}.map")
        self.addCleanup(perf_map.unlink)
        recording = self.record(worker)
        self.check_truth(recording, perf_map)
        names = self.check_names(recording, 0.8, r"long Work\.(alpha|beta)\(int\)")
        self.check_types(recording, names, "jvm")


class Python(JitCase):
    def test_perf_map(self):
        python, reason = jit_worker.python_with_perf()
        if not python:
            self.skipTest(reason)
        worker = self.worker(python, "-X", "perf", "-c", jit_worker.PYTHON)
        perf_map = pathlib.Path(f"/tmp/perf-{worker.pid}.map")
        self.addCleanup(perf_map.unlink)
        recording = self.record(worker)
        self.check_truth(recording, perf_map)
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
        # The first ones come before the loader knows what is mapped, and say so.
        whole = [stack for stack in in_vdso if not stack["frames"][-1].startswith("[")]
        self.assertGreater(sum(stack["count"] for stack in whole), 0.9 * sum(stack["count"] for stack in in_vdso))
        for stack in whole:
            self.assertIn("caller", [analysis.name_of(frame) for frame in stack["frames"]])
        self.check_types(recording, {"__vdso_clock_gettime"}, "native")
