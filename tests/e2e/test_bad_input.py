# SPDX-License-Identifier: Apache-2.0
"""Each mistake is one line with a hint and the right exit code; never a crash, never a half-written file."""

import contextlib
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import time

import harness

FAILED, USAGE, HOST = 1, 2, 3


def children_of(pid):
    children = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name, in parentheses, may hold anything; behind it are the state and the parent.
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                children.append(int(stat.parent.name))
    return children


class BadInput(harness.StageCase):
    def check_error(self, code, expected, outcome):
        """`outcome` failed with one line of error that names what is wrong, and nothing on standard output."""
        got, out, err = outcome
        self.assertEqual(got, code, err)
        errors = [line for line in err.splitlines() if line.startswith("spanfold: error: ")]
        self.assertEqual(len(errors), 1, err)
        self.assertRegex(errors[0], expected)
        self.assertEqual(out, "")

    def record(self, *options, **kwargs):
        return harness.spanfold("record", "--ctx-map", self.stage.ctx_map, *options, **kwargs)

    def leftovers(self):
        names = (path.name for path in self.stage.folder.iterdir())
        return sorted(name for name in names if not name.startswith(("out-", "err-", "bpf")))


class Usage(BadInput):
    CASES = (
        (["--no-such-option"], "no-such-option"),
        (["-d", "ten"], "ten"),
        (["-d", "-5"], "-5"),
        (["-d", "0"], "0"),
        (["-d", "5 parsecs"], "parsecs"),
        (["-d", "99999999999999999999h"], "9999"),
        (["-F", "0"], "0"),
        (["-F", "many"], "many"),
        (["-F", "100000000"], "100000000"),
        (["-p", "me"], "me"),
        (["-p", "-3"], "-3"),
        (["-C", "x-y"], "x-y"),
        (["-C", "99999"], "99999"),
        (["--flush", "never"], "never"),
        (["--background", "loud"], "loud"),
        (["--symbols", "remote"], "remote"),
        (["--max-disk", "big", "-o", "folder/"], "big"),
        (["-o", ""], "output"),
        (["stray"], "stray"),
    )

    def test_record(self):
        for options, expected in self.CASES:
            with self.subTest(options=options):
                self.check_error(USAGE, expected, self.record(*options, cwd=self.stage.folder))
        self.assertEqual(self.leftovers(), [])

    def test_report(self):
        good = self.stage.record(command=["true"]).check().output
        for options, expected in (
            (["--by", "colour", good], "colour"),
            (["--format", "poem", good], "poem"),
            (["--span", "xyz", good], "xyz"),
            (["--top", "few", good], "few"),
            (["--top", "0", good], "--top"),
            (["--top", "-1", good], "--top"),
            (["--by", "route", good], "--traces FILE.*cannot read yet"),
            (["-o", "", good], "output has no name"),
            ([""], "empty"),
            ([good, ""], "empty"),
            (["--nonsense", good], "nonsense"),
        ):
            with self.subTest(options=options):
                self.check_error(USAGE, expected, harness.spanfold("report", *options))
        good.unlink()

    def test_commands(self):
        self.check_error(USAGE, "paint.*--help", harness.spanfold("paint"))
        code, out, err = harness.spanfold()
        self.assertEqual((code, out), (USAGE, ""))
        self.assertIn("record", err)

    def test_help_is_a_result(self):
        for words in (["--help"], ["record", "--help"], ["report", "--help"], ["--version"]):
            with self.subTest(words=words):
                code, out, err = harness.spanfold(*words)
                self.assertEqual((code, err), (0, ""))
                self.assertTrue(out)

    def test_terminal_is_refused(self):
        leader, follower = pty.openpty()
        running = self.stage.start_spanfold("record", "-d", "1", "-o", "-", stdout=follower)
        os.close(follower)
        self.assertEqual(running.wait(20), USAGE)
        os.close(leader)
        self.assertRegex(running.err(), "terminal.*-o")


class Unreadable(BadInput):
    """Files that report cannot read."""

    @classmethod
    def set_up_stage(cls):
        cls.good = cls.stage.record("-F", "999", "-d", "1").check().output.read_bytes()

    def file(self, name, content):
        path = self.stage.folder / name
        path.write_bytes(content)
        self.addCleanup(path.unlink)
        return path

    def test_files(self):
        garbage = bytes(range(256)) * 8
        folder = self.stage.folder / "empty"
        folder.mkdir()
        self.addCleanup(folder.rmdir)
        for path, expected in (
            (self.stage.folder / "absent.otlp", "absent.otlp"),
            (self.file("garbage.otlp", garbage), "garbage.otlp"),
            (self.file("text.otlp", b"this is no profile\n"), "text.otlp"),
            (self.file("cut.otlp", self.good[: len(self.good) // 2]), "cut.otlp"),
            (self.file("short.otlp", self.good[:-1]), "short.otlp"),
            (folder, "empty"),
        ):
            with self.subTest(path=path.name):
                self.check_error(FAILED, expected, harness.spanfold("report", path))

    def test_every_cut_is_survived(self):
        """No cut and no flipped byte makes report crash, whatever it says."""
        step = max(len(self.good) // 40, 1)
        for at in range(0, len(self.good), step):
            flipped = bytearray(self.good)
            flipped[at] ^= 0xFF
            for content in (self.good[:at], bytes(flipped)):
                path = self.file("hurt.otlp", content)
                code, _, err = harness.spanfold("report", path, "--format", "json")
                self.assertIn(code, (0, FAILED), err)
                self.doCleanups()


class Unwritable(BadInput):
    def test_full_device(self):
        before = self.leftovers()
        self.check_error(FAILED, "/dev/full.*[Nn]o space", self.record("-d", "1", "-o", "/dev/full"))
        self.assertEqual(self.leftovers(), before)
        self.assertTrue(os.path.exists("/dev/full"))

    def test_full_standard_output(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            running = self.stage.start_spanfold("record", "-d", "1", "-o", "-", stdout=full)
        self.assertEqual(running.wait(20), FAILED)
        self.assertRegex(running.err(), "(?m)^spanfold: error: .*[Nn]o space")

    def test_full_disk_keeps_the_file_of_before(self):
        disk = self.stage.folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=True)
        try:
            output = disk / "spanfold.otlp"
            output.write_bytes(b"x" * 40_000)
            self.stage.start_writer(binaries=["hammer"])
            load = self.stage.start_workload("hammer", "--ids", "own", "--pool", "4000", "--seconds", "4")
            got = self.record("-F", "4000", "-d", "3", "--flush", "500ms", "-o", output)
            load.wait()
            self.check_error(FAILED, "spanfold.otlp.*[Nn]o space", got)
            part = disk / "spanfold.otlp.part"
            self.assertLessEqual({path.name for path in disk.iterdir()}, {"spanfold.otlp", part.name})
            # Kept only where report can read it.
            if part.exists():
                self.assertIn(part.name, got[2])
                code, _, err = harness.spanfold("report", part)
                self.assertEqual(code, 0, err)
            self.assertEqual(output.read_bytes(), b"x" * 40_000)
        finally:
            subprocess.run(["umount", disk], check=True)
            disk.rmdir()

    def test_last_step_that_fails_keeps_the_recording(self):
        output = self.stage.folder / "kept.otlp"
        output.write_bytes(b"before")
        old = output.with_name("kept.otlp.old")
        part = output.with_name("kept.otlp.part")
        running = self.stage.start_spanfold("record", "-d", "2", "-o", output)
        self.addCleanup(lambda: [path.unlink(missing_ok=True) for path in (output, part)])
        while not part.exists() and running.running():
            time.sleep(0.01)
        old.mkdir()
        self.addCleanup(old.rmdir)
        self.assertEqual(running.wait(20), FAILED)
        self.assertRegex(running.err(), "kept.otlp.old.*kept.otlp.part, which report reads")
        self.assertEqual(output.read_bytes(), b"before")
        self.assertEqual(harness.spanfold("report", part)[0], 0)
        # Now it shows before anything is recorded.
        part.unlink()
        self.check_error(FAILED, "kept.otlp.old is a folder", self.record("-d", "1", "-o", output))
        self.assertFalse(part.exists())

    def test_link_to_nothing(self):
        link = self.stage.folder / "dangling.otlp"
        link.symlink_to(self.stage.folder / "nothing")
        self.addCleanup(link.unlink)
        self.check_error(FAILED, "dangling.otlp is a symbolic link to something", self.record("-d", "1", "-o", link))

    def test_folders(self):
        for path, expected in (("/nowhere/deep/file.otlp", "/nowhere/deep"), ("/proc/folder/", "/proc/folder")):
            with self.subTest(path=path):
                self.check_error(FAILED, expected, self.record("-d", "1", "-o", path))


class Host(BadInput):
    """What the host refuses."""

    def as_nobody(self, *words):
        binary = self.stage.folder / "spanfold"
        shutil.copy(harness.SPANFOLD, binary)
        self.addCleanup(binary.unlink)
        return harness.run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", binary, *words, cwd="/tmp")

    def test_no_permission(self):
        self.check_error(HOST, "root|CAP_", self.as_nobody("record", "-d", "1", "-o", "/dev/null"))

    def test_no_permission_with_a_command(self):
        self.check_error(125, "root|CAP_", self.as_nobody("record", "-o", "/dev/null", "--", "true"))

    def test_reports_need_no_root(self):
        output = self.stage.record("-d", "1").check().output
        output.chmod(0o644)
        code, out, err = self.as_nobody("report", output)
        self.assertEqual(code, 0, err)
        self.assertTrue(out)

    def test_no_btf(self):
        """In a mount namespace of its own, where the kernel shows none and no file can stand in."""
        hide = "[ ! -d $at ] || mount -t tmpfs none $at || exit 99"
        script = f'for at in /sys/kernel/btf /boot /lib/modules; do {hide}; done; exec "$@"'
        words = [harness.SPANFOLD, "record", "-d", "1", "--ctx-map", self.stage.ctx_map, "-o", "/dev/null"]
        self.check_error(HOST, "BTF", harness.run("unshare", "-m", "sh", "-c", script, "sh", *words))

    def test_no_bpffs(self):
        pin = self.stage.folder / "plain/traces_ctx_v1"
        outcome = harness.spanfold("record", "-d", "1", "-o", "/dev/null", "--ctx-map", pin)
        self.check_error(HOST, "bpffs.*mount", outcome)

    def test_target_that_is_not_there(self):
        code, _, err = self.record("-d", "1", "-o", "/dev/null", "-p", "4194304")
        self.assertIn(code, (FAILED, USAGE))
        self.assertRegex(err, "4194304")

    def test_killed_command(self):
        running = self.stage.begin_record(command=["sleep", "30"])
        time.sleep(1)
        (child,) = children_of(running.pid)
        os.kill(child, signal.SIGKILL)
        self.stage.finish(running, timeout=10).check(137)
