# SPDX-License-Identifier: Apache-2.0
"""What vm-run.sh understands and refuses before it fetches or boots anything; no kernel is booted here."""
import os
import pathlib
import platform
import re
import shutil
import subprocess
import unittest

import trees

SCRIPTS = ("vm-run.sh", "vm-init.sh", "kernels.txt", "fetch-kernel.sh")
KERNELS = """\
# a comment
6.1  bookworm  amd64

7.2  sid  amd64  linux-image-rt-amd64
6.1-arm64 bookworm arm64
"""
# In place of fetch-kernel.sh: says what it was asked for and finds nothing.
NO_FETCH = "#!/bin/sh\necho asked for \"$@\" >&2\nexit 1\n"


class VmRun(trees.TreeCase):
    """The scripts in a tree of their own, where nothing can be fetched."""

    def setUp(self):
        super().setUp()
        for name in SCRIPTS:
            shutil.copy(trees.SCRIPTS / name, self.root)
        self.write({"fetch-kernel.sh": NO_FETCH, "kernels.txt": KERNELS})

    def run_vm(self, *words, path=os.environ["PATH"]):
        return subprocess.run([shutil.which("bash"), self.root / "vm-run.sh", *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False, env={"PATH": path})

    def assert_refused(self, says, *words):
        done = self.run_vm(*words)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(says, done.stderr.splitlines()[0])
        self.assertIn("usage: ", done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertNotIn("asked for", done.stderr)

    def assert_failed(self, says, done):
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn(says, done.stderr)
        self.assertEqual(done.stdout, "")


class Words(VmRun):
    def test_no_kernel_or_command(self):
        self.assert_refused("no kernel given")
        self.assert_refused("no kernel given", "--cpus", "4")
        self.assert_refused("no command given", "6.1")
        self.assert_refused("no command given", "6.1", "--")

    def test_an_unknown_kernel_names_those_that_are_known(self):
        for name in ("5.4", "6", "6.", "6.10", "06.1", "bookworm", "#", ""):
            self.assert_refused(f"no kernel {name}; there are 6.1 7.2 6.1-arm64", name, "--", "true")

    def test_options(self):
        self.assert_refused("no option --kvm", "--kvm", "6.1", "true")
        for option in ("--cpus", "--memory", "--timeout", "--append", "--out"):
            self.assert_refused(f"{option} needs a value", option)
        for option in ("--cpus", "--memory", "--timeout"):
            for value in ("", "0", "-1", "1.5", "2x", "12345678"):
                self.assert_refused(f"{option} {value}: not a number", option, value, "6.1", "true")
        self.assert_refused("--out needs a folder", "--out", "", "6.1", "true")

    def test_help(self):
        done = self.run_vm("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith("usage: "))


class Kernels(VmRun):
    def test_each_line_of_the_list_is_understood(self):
        shutil.copy(trees.SCRIPTS / "kernels.txt", self.root)
        lines = [line.split() for line in (self.root / "kernels.txt").read_text().splitlines()
                 if line and not line.startswith("#")]
        names = [line[0] for line in lines]
        self.assertEqual(len(names), len(set(names)))
        for line in lines:
            self.assertIn(len(line), (3, 4), line)
            self.assertRegex(line[0], r"^\d+\.\d+(-[a-z0-9]+)*$")
            self.assertRegex(line[1], r"^[a-z]+$")
            self.assertIn(line[2], ("amd64", "arm64"))
        self.assert_refused("there are " + " ".join(names), "none", "true")

    @unittest.skipUnless(platform.machine() == "x86_64", "runs x86-64 kernels on x86-64 only")
    def test_the_list_is_of_what_can_run(self):
        self.assertEqual(self.run_vm("--list").stdout, "6.1\n7.2\n")

    def test_arm64_is_said_not_to_run(self):
        done = self.run_vm("6.1-arm64", "true")
        self.assert_failed("6.1-arm64: arm64 is not run yet", done)
        self.assertNotIn("asked for", done.stderr)


@unittest.skipUnless(platform.machine() == "x86_64", "runs x86-64 kernels on x86-64 only")
class Fetching(VmRun):
    """With tools that are there by name only."""

    def setUp(self):
        super().setUp()
        for tool in ("qemu-system-x86_64", "busybox", "cpio", "xz"):
            self.write({f"bin/{tool}": "#!/bin/sh\nexit 9\n"})
        for each in (*(self.root / "bin").iterdir(), self.root / "fetch-kernel.sh"):
            each.chmod(0o755)
        self.path = f"{self.root}/bin:{os.environ['PATH']}"

    def hold(self, *files):
        """What fetch-kernel.sh finds."""
        self.write({f"tree/{name}": "" for name in files})
        self.write({"fetch-kernel.sh": f"#!/bin/sh\necho {self.root}/tree\n"})

    def test_the_package_is_asked_for_by_suite_and_architecture(self):
        for words, asked in ((("6.1", "true"), "bookworm amd64 linux-image-amd64"),
                             (("--cpus", "1", "--out", "x", "7.2", "--", "true"), "sid amd64 linux-image-rt-amd64")):
            done = self.run_vm(*words, path=self.path)
            self.assert_failed("no kernel " + re.search(r"\d\.\d", " ".join(words)).group(), done)
            self.assertIn(f"asked for {asked}\n", done.stderr)

    def test_a_suite_that_has_moved_on(self):
        self.hold("boot/vmlinuz-6.12.3-amd64", "lib/modules/6.12.3-amd64/modules.builtin")
        self.assert_failed("suite bookworm holds 6.12.3-amd64 now: correct 6.1", self.run_vm("6.1", "true", path=self.path))

    def test_a_kernel_without_modules(self):
        self.hold("boot/vmlinuz-6.1.0-9-amd64")
        self.assert_failed("holds no modules of 6.1.0-9-amd64", self.run_vm("6.1", "true", path=self.path))

    def test_a_kernel_without_9p(self):
        built_in = "kernel/drivers/virtio/virtio_pci.ko\nkernel/drivers/char/virtio_console.ko\n"
        self.hold("boot/vmlinuz-6.1.0-9-cloud-amd64")
        self.write({"tree/lib/modules/6.1.0-9-cloud-amd64/modules.builtin": built_in})
        self.assert_failed("6.1.0-9-cloud-amd64 has no module 9pnet_virtio", self.run_vm("6.1", "true", path=self.path))

    def test_a_missing_tool(self):
        (self.root / "bin/cpio").unlink()
        for tool in ("awk", "dirname", "uname", "cat", "paste"):
            pathlib.Path(self.root, "bin", tool).symlink_to(shutil.which(tool))
        self.assert_failed("cpio is missing: run scripts/setup.sh vm", self.run_vm("6.1", "true", path=f"{self.root}/bin"))


if __name__ == "__main__":
    unittest.main()
