# SPDX-License-Identifier: Apache-2.0
"""What fetch-root.sh takes and refuses, and that its cache holds whole roots only; nothing is fetched here."""
import os
import pathlib
import shutil
import subprocess
import unittest

import trees

KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# In place of the tools that need root or a network. debootstrap's words end in suite, folder, mirror.
TOOLS = {
    "id": "echo 0",
    "apt-get": "echo 'Debian|main|bookworm-security|http://other'; echo 'Debian|main|bookworm|http://mirror'",
    "unshare": 'while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"',
    "debootstrap": 'echo "$@" >>"$LOG"; while [ $# -gt 3 ]; do shift; done; echo "$1" >"$2/suite"; [ ! -e "$LOG.fail" ]',
}


class FetchRoot(trees.TreeCase):
    def setUp(self):
        super().setUp()
        self.write({f"bin/{name}": f"#!/bin/sh\n{text}\n" for name, text in TOOLS.items()})
        for path in (self.root / "bin").iterdir():
            path.chmod(0o755)
        self.log, self.roots = self.root / "log", self.root / "cache/spanfold/roots"

    def fetch(self, *words):
        env = {"PATH": f"{self.root}/bin:{os.environ['PATH']}", "XDG_CACHE_HOME": f"{self.root}/cache", "LOG": str(self.log)}
        return subprocess.run([shutil.which("bash"), trees.SCRIPTS / "fetch-root.sh", *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False, env=env)

    def test_words(self):
        for words in ((), ("trixie",), ("--again", "trixie"), ("trixie", "a;b"), ("../trixie", "a"), ("trixie", "A")):
            done = self.fetch(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertIn("usage: ", done.stderr)
        self.assertFalse(self.log.exists())

    def test_once_for_each_set_of_packages(self):
        if not KEYRING.exists():
            self.skipTest(f"{KEYRING} is missing")
        one, again, other = (self.fetch("trixie", *packages) for packages in (["a", "b"], ["a", "b"], ["a"]))
        self.assertEqual((one.returncode, one.stdout), (0, again.stdout), one.stderr)
        self.assertNotEqual(one.stdout, other.stdout)
        self.assertEqual((pathlib.Path(one.stdout.strip()) / "suite").read_text(), "trixie\n")
        calls = self.log.read_text().splitlines()
        self.assertEqual(len(calls), 2)
        self.assertRegex(calls[0], r"--include=a,b trixie \S+ http://mirror$")
        self.assertEqual(self.fetch("--again", "trixie", "a").stdout, other.stdout)
        self.assertEqual(len(self.log.read_text().splitlines()), 3)

    def test_what_fails_leaves_nothing(self):
        if not KEYRING.exists():
            self.skipTest(f"{KEYRING} is missing")
        self.write({"log.fail": ""})
        done = self.fetch("trixie", "a")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("cannot make a root of trixie", done.stderr)
        self.assertEqual(list(self.roots.iterdir()), [])

    def test_no_archive_of_debian(self):
        self.write({"bin/apt-get": "#!/bin/sh\necho 'Ubuntu|main|noble|http://mirror'\n"})
        done = self.fetch("trixie", "a")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no Debian archive", done.stderr)


if __name__ == "__main__":
    unittest.main()
