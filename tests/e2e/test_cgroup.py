# SPDX-License-Identifier: Apache-2.0
"""Control groups: only what is in them or below is recorded, whoever forks, moves, comes or goes; v1 and v2 alike.

Both on mounts of the test's own: the v2 hierarchy, and a v1 hierarchy that has a name and no controller."""

import os
import pathlib
import signal
import subprocess
import time
import unittest

import analysis
import harness

FAMILY = {1: {"parent_work"}, 2: {"forked_work"}, 3: {"execed_work"}, 4: {"short_work"}}
HZ = 499


class Hierarchy:
    """A mount, and groups below one group in it; what is left of them goes with close()."""

    def __init__(self, folder, name, *mount_options):
        self.mount = folder
        folder.mkdir()
        done = subprocess.run(["mount", *mount_options, folder], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            folder.rmdir()
            raise unittest.SkipTest(f"no cgroup {name} here: {done.stderr.strip()}")
        self.top = folder / f"spanfold-e2e-{os.getpid()}"
        self.top.mkdir()

    def close(self):
        for path, _, _ in os.walk(self.top, topdown=False):
            remove_group(pathlib.Path(path))
        subprocess.run(["umount", self.mount], check=True)
        self.mount.rmdir()

    def group(self, name):
        path = self.top / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def name_of(self, group):
        return str(group.relative_to(self.mount))


def remove_group(path, timeout=5):
    """Busy until those that were killed in it are gone."""
    end = time.monotonic() + timeout
    while True:
        try:
            path.rmdir()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def move(pid, group):
    (group / "cgroup.procs").write_text(str(pid))


def cpu_seconds(pid):
    return sum(int(path.read_text().split()[0]) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def inside(group, command):
    """The words that run a command in a group from its first instruction, under the same pid."""
    return ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', group, *command]


class Groups:
    """Tests of both versions."""

    MOUNT = ()

    @classmethod
    def set_up_stage(cls):
        cls.hierarchy = Hierarchy(cls.stage.folder / cls.__name__, cls.__name__, *cls.MOUNT)
        cls.addClassCleanup(cls.hierarchy.close)
        cls.stage.start_writer(binaries=["family", "known"])

    def setUp(self):
        self.group = self.hierarchy.group(self._testMethodName)
        self.serial = 1

    def start_known(self, group=None):
        self.serial += 1
        command = harness.workload("known", "--seconds", "30", "--seed", self.serial)
        running = self.stage.start(*(inside(group, command) if group else command))
        self.addCleanup(running.stop, signal.SIGKILL)
        return running

    def begin(self, *options, seconds=0.6, group=None):
        names = ["--cgroup", group or self.group]
        running = self.stage.begin_record("-F", HZ, "-d", f"{round(seconds * 1000)}ms", "--max-overhead", "0", "-v", *names, *options)
        running.await_error("recording what is in")
        return running

    def record(self, *options, **kwargs):
        return self.stage.finish(self.begin(*options, **kwargs)).check()

    def pids(self, recording):
        return {row["pid"] for row in analysis.span_rows(recording.rows())}

    def check_share(self, recording, seconds):
        """Of a process that was in the group for so much CPU time, in spans or not."""
        accounting = recording.accounting
        missed = accounting.missed + self.LATE * HZ
        analysis.check_count("samples", accounting.in_span + accounting.background, seconds * HZ, missed, slack=0.1)

    def test_only_what_is_in_the_group_or_below(self):
        wanted = {self.start_known(self.group).pid, self.start_known(self.hierarchy.group(f"{self.group}/a/b")).pid}
        self.start_known()
        self.start_known(self.hierarchy.group("beside"))
        recording = self.record()
        self.assertEqual(self.pids(recording), wanted)
        self.assertGreater(recording.accounting.filtered, 0.2 * recording.accounting.ticks)

    def test_any_of_several_groups(self):
        second = self.hierarchy.group("second")
        wanted = {self.start_known(self.group).pid, self.start_known(second).pid}
        self.start_known()
        for names in ([f"{self.group},{second}"], [self.group, "--cgroup", second]):
            with self.subTest(names=names):
                self.assertEqual(self.pids(self.record(*names[1:], group=names[0])), wanted)

    def test_with_pids_both_must_hold(self):
        first, _, outside = self.start_known(self.group), self.start_known(self.group), self.start_known()
        recording = self.record("-p", f"{first.pid},{outside.pid}")
        self.assertEqual(self.pids(recording), {first.pid})
        recording = self.record("-t", outside.pid)
        accounting = recording.accounting
        self.assertEqual(accounting.ticks, accounting.idle + accounting.filtered, accounting.line)

    def test_children_belong_to_it(self):
        """Those of processes that were there before, and theirs, however short they live."""
        recording = self.begin(seconds=50)
        options = ["--mode", "short", "--children", "20", "--ms", "50"]
        family = self.stage.start(*inside(self.group, harness.workload("family", *options)))
        self.assertEqual(family.wait(), 0)
        stranger = self.stage.start_workload("family", "--mode", "background", "--ms", "300")
        stranger.wait()
        recording.send(signal.SIGINT)
        recording = self.stage.finish(recording).check()
        counts = analysis.check_right_spans(recording.rows(), FAMILY)
        total = sum(counts[4].values())
        # The parent is known within a tenth of a second, the children at once.
        analysis.check_count("samples", total, 20 * 0.05 * HZ, recording.accounting.missed + self.LATE * HZ, slack=0.04)
        self.assertGreater(counts[4]["short_work"], 0.9 * total)
        self.assertLess(recording.accounting.background, 0.2 * HZ, "the stranger counts as filtered")

    def test_moved_in(self):
        running = self.start_known()
        recording = self.begin(seconds=2)
        time.sleep(0.7)
        move(running.pid, self.group)
        before = cpu_seconds(running.pid)
        recording.wait()
        seconds = cpu_seconds(running.pid) - before
        recording = self.stage.finish(recording).check()
        self.assertEqual(self.pids(recording), {running.pid})
        self.check_share(recording, seconds)

    def test_moved_out(self):
        running = self.start_known(self.group)
        recording = self.begin(seconds=1.5)
        before = cpu_seconds(running.pid)
        time.sleep(1)
        move(running.pid, self.hierarchy.mount)
        seconds = cpu_seconds(running.pid) - before
        recording = self.stage.finish(recording).check()
        self.assertEqual(self.pids(recording), {running.pid})
        self.check_share(recording, seconds)

    def test_moved_between_groups_below(self):
        folders = [self.hierarchy.group(f"{self.group}/{name}") for name in ("a", "b")]
        running = self.start_known(folders[0])
        recording = self.begin(seconds=1)
        before = cpu_seconds(running.pid)
        while recording.running():
            folders.reverse()
            move(running.pid, folders[0])
            time.sleep(0.001)
        seconds = cpu_seconds(running.pid) - before
        self.check_share(self.stage.finish(recording).check(), seconds)

    def test_empty_group_is_said_and_filled_later(self):
        recording = self.begin(seconds=1)
        time.sleep(0.2)
        running = self.start_known(self.group)
        recording = self.stage.finish(recording).check()
        self.assertEqual(self.pids(recording), {running.pid})
        self.assertEqual(recording.stderr.count("there is no process in the cgroup"), 1)

    def test_group_that_goes_and_comes_back(self):
        running = self.start_known(self.group)
        recording = self.begin(seconds=4)
        running.stop(signal.SIGKILL)
        remove_group(self.group)
        recording.await_error("is gone")
        time.sleep(0.3)
        self.group.mkdir()
        recording.await_error("made anew")
        again = self.start_known(self.group)
        recording = self.stage.finish(recording).check()
        self.assertLessEqual({again.pid}, self.pids(recording))
        self.assertEqual(recording.stderr.count("is gone: recording goes on"), 1)
        self.assertGreaterEqual(recording.seconds, 4)

    def test_names_below_the_mount(self):
        running = self.start_known(self.group)
        name = self.hierarchy.name_of(self.group)
        for form in (name, f"/{name}", f"{name}/"):
            with self.subTest(form=form):
                self.assertEqual(self.pids(self.record(group=form)), {running.pid})

    def test_everything_is_in_the_root(self):
        running = self.start_known(self.group)
        recording = self.record(group=self.hierarchy.mount)
        self.assertLessEqual({running.pid}, self.pids(recording))
        self.assertLess(recording.accounting.filtered, 0.05 * recording.accounting.ticks)


class Version1(Groups, harness.StageCase):
    MOUNT = ("-t", "cgroup", "-o", f"none,name=spanfold-{os.getpid()}", "none")
    LATE = 0.15  # seconds until the loader sees who came


class Version2(Groups, harness.StageCase):
    MOUNT = ("-t", "cgroup2", "none")
    LATE = 0

    def test_a_group_of_each_version(self):
        other = Hierarchy(self.stage.folder / "other", "v1", *Version1.MOUNT)
        self.addCleanup(other.close)
        second = other.group("second")
        wanted = {self.start_known(self.group).pid, self.start_known(second).pid}
        self.start_known()
        self.assertEqual(self.pids(self.record("--cgroup", second)), wanted)


class Refused(harness.StageCase):
    def test_errors_with_a_hint(self):
        cases = (("/no/such/group", 1, "find the cgroup /no/such/group"), ("no-such-group", 1, "find the cgroup"),
                 (self.stage.folder, 2, "is no cgroup"), (harness.SPANFOLD, 2, "is no cgroup"), ("", 2, "cgroup"))
        for name, code, words in cases:
            with self.subTest(name=name):
                running = self.stage.begin_record("-d", "1", "--cgroup", name)
                self.assertEqual(running.wait(10), code)
                self.assertIn(words, running.err())
                self.assertRegex(running.err(), r"(?m)^spanfold: error: .*\(.*\)$|see spanfold record --help")
                self.assertFalse(running.output.exists(), "nothing is written")
