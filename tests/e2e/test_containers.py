# SPDX-License-Identifier: Apache-2.0
"""Programs in a container (overlayfs root, own pids): names come from the container's files, whatever lies at the same
paths on the host (SYM-05), and from the perf map of the innermost pid, whatever other maps there are (NS-02)."""

import pathlib
import re
import shutil
import subprocess
import tempfile

import container
import frames
import harness
import jit_worker
import truth
import work_case

ID = "5c" * 32
NO_IDS = ("-Wl,--build-id=none",)


class ContainerCase(work_case.WorkCase):
    UNITS = 150

    def setUp(self):
        super().setUp()
        self.container = container.Container(tempfile.mkdtemp(dir=self.stage.folder))
        self.addCleanup(self.container.close)
        self.container.check_possible()

    def start(self, name, *command):
        """The worker, known by the host's pid."""
        worker = self.worker(*self.container.command(*command))
        worker.spend("alpha", 1)
        worker.outer, worker.pid = worker.pid, jit_worker.first_child(worker.pid, name)
        return worker


C = """
#include <stdio.h>
__attribute__((noinline)) long FIRST(long n) { long s = n; while (n-- > 0) { s = s * 31 + n; __asm__ volatile("" : "+r"(s)); } return s; }
__attribute__((noinline)) long SECOND(long n) { long s = n; while (n-- > 0) { s = s * 33 + n; __asm__ volatile("" : "+r"(s)); } return s + 1; }
int main(void) {
  char name[64];
  int units;
  while (scanf("%63s %d", name, &units) == 2) {
    for (long i = 0; i < units; i++) name[0] == 'a' ? ALPHA(500000) : BETA(500000);
    puts("done");
    fflush(stdout);
  }
  return 0;
}
"""


class Overlay(ContainerCase):
    def build(self, path, first, second, *options):
        source = self.stage.folder / "app.c"
        source.write_text(C)
        names = {"FIRST": first, "SECOND": second, "ALPHA": "alpha" if "alpha" in (first, second) else first,
                 "BETA": "beta" if "beta" in (first, second) else second}
        defines = [f"-D{key}={value}" for key, value in names.items()]
        subprocess.run(["gcc", "-O1", "-fno-omit-frame-pointer", *defines, *options, "-o", path, source], check=True, timeout=120)

    def check(self, *options, alter=None):
        if shutil.which("gcc") is None:
            self.skipTest("gcc is not installed")
        app, own = self.stage.folder / "app", self.stage.folder / "own"
        self.build(app, "wrong_one", "wrong_two", *options)
        self.build(own, "beta", "alpha", *options)
        self.container.put(app, own)
        worker = self.start("app", app)
        if alter:
            alter(pathlib.Path(f"/proc/{worker.pid}/root{app}"), app)
        recording = self.record(worker)
        checker = truth.Checker()
        checker.tell(app, truth.Elf(own))
        found = frames.frames_of(recording.files)
        checker.check(found)
        host = truth.Elf(app)
        self.assertTrue(any(host.why_not(each.address, each.name) for each in found if each.file == str(app) and each.name))
        self.check_names(recording, 0.9, "(alpha|beta)")
        print(f"\n{checker}")

    def test_another_file_at_the_same_path_on_the_host(self):
        self.check()

    def test_the_same_without_build_ids(self):
        self.check(*NO_IDS)

    def test_deleted(self):
        for options in ((), NO_IDS):
            with self.subTest(options=options):
                self.doCleanups()
                self.setUp()
                self.check(*options, alter=lambda path, _: path.unlink())

    def test_replaced_by_an_upgrade(self):
        def replace(path, other):
            new = path.with_name("app.new")
            shutil.copy(other, new)
            new.rename(path)

        for options in ((), NO_IDS):
            with self.subTest(options=options):
                self.doCleanups()
                self.setUp()
                self.check(*options, alter=replace)


class Jit(ContainerCase):
    PATTERN = r"(alpha|beta) .+:\d+:\d+"
    OPTIONS = ("--interpreted-frames-native-stack", "--no-turbo-inlining")

    def setUp(self):
        super().setUp()
        if shutil.which("node") is None:
            self.skipTest("node is not installed")

    def put_decoys(self, worker):
        """Maps with wrong names for all of its generated code: by its pid on the host, there and in the container, and by
        the ids of its threads in the container."""
        process = pathlib.Path(f"/proc/{worker.pid}")
        ranges = re.findall(r"^(\w+)-(\w+) r.xp \S+ \S+ 0 *$", (process / "maps").read_text(), re.MULTILINE)
        self.assertTrue(ranges)
        text = "".join(f"{start} {int(end, 16) - int(start, 16):x} JS:*decoy /x.js:1:1\n" for start, end in ranges)
        numbers = {worker.pid}
        for status in process.glob("task/*/status"):
            numbers.update(map(int, re.search(r"^NSpid:\s+(.*)$", status.read_text(), re.MULTILINE)[1].split()))
        folders = {pathlib.Path("/tmp"): {worker.pid}, process / "root/tmp": numbers - {self.inner_pid(worker)}}
        for folder, pids in folders.items():
            for pid in pids:
                (folder / f"perf-{pid}.map").write_text(text)
        self.addCleanup(pathlib.Path(f"/tmp/perf-{worker.pid}.map").unlink)
        self.assertGreater(len(numbers), 4)

    @staticmethod
    def inner_pid(worker):
        status = pathlib.Path(f"/proc/{worker.pid}/status").read_text()
        return int(re.search(r"^NSpid:.*\s(\d+)$", status, re.MULTILINE)[1])

    def record_node(self, *options):
        self.container.join_group(f"spanfold-e2e/docker/{ID}")
        worker = self.start("node", "node", *options, *self.OPTIONS, "-e", jit_worker.NODE_THREAD)
        self.put_decoys(worker)
        running, tid = self.begin(worker)
        self.assertNotEqual(tid, worker.pid, "the work is done by the first thread")
        self.spend(worker, tid)
        own = pathlib.Path(f"/proc/{worker.pid}/root/tmp/perf-{self.inner_pid(worker)}.map")
        perf_map = own.read_text() if own.exists() else ""
        worker.finish()
        recording = self.stage.finish(running).check()
        self.assertNotIn("decoy", harness.report(recording.files, "--by", "stack", "--format", "folded"))
        return recording, perf_map

    def test_map_of_the_innermost_pid(self):
        recording, perf_map = self.record_node("--perf-basic-prof")
        self.check_names(recording, 0.9, self.PATTERN)
        checker = truth.Checker()
        checker.tell("[anon jit]", truth.PerfMap(perf_map))
        checker.check(frames.frames_of(recording.files))
        print(f"\n{checker}")
        resources = [each["resource"] for _, all_ in harness.otlp.check.load(recording.files[0]) for each in all_]
        rows = [row for resource in resources if resource for row in resource["attributes"]]
        self.assertEqual({row["value"]["string_value"] for row in rows if row["key"] == "container.id"}, {ID})

    def test_no_map_of_its_own(self):
        recording, perf_map = self.record_node()
        self.assertEqual(perf_map, "")
        code = [frame for frame in frames.frames_of(recording.files) if frame.file == "[anon jit]"]
        self.assertTrue(code)
        self.assertEqual({frame.name for frame in code}, {""})
        self.assertEqual(len(re.findall(r"generated code of node .* has no names: .*--perf-basic-prof", recording.stderr)), 1)
