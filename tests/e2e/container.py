# SPDX-License-Identifier: Apache-2.0
"""A container as far as the kernel knows one: a root of its own on overlayfs, entered by pivot_root, with namespaces for
processes, mounts and control groups. What it writes, and files that it is given, the host never sees."""

import pathlib
import re
import shutil
import subprocess
import unittest

# $1 the folder for all of it, $2 what comes into its root, $3 where its group is (may be empty); then the command.
_ENTER = """
set -e
folder=$1 files=$2 group=$3
shift 3
[ -z "$group" ] || echo $$ >"$group/cgroup.procs"
exec unshare --cgroup --mount --pid --fork --kill-child sh -c '
set -e
folder=$1 files=$2
shift 2
mount -t tmpfs none "$folder"
mkdir "$folder/upper" "$folder/work" "$folder/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$folder/root"
cp -a "$files/." "$folder/root"
mount --rbind /dev "$folder/root/dev"
cd "$folder/root"
mkdir -p .before
pivot_root . .before
cd /
mount -t proc proc /proc
umount -l /.before
exec "$@"' sh "$folder" "$files" "$@"
"""


class Container:
    """Its files are put below `files`, at the paths that they shall have in it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.files = self.folder / "files"
        self.root = self.folder / "root"
        for path in (self.files, self.root):
            path.mkdir(parents=True)
        self.groups = []

    def join_group(self, name):
        """Makes a control group, in whichever hierarchy there is, that its processes will be in."""
        for kind in ("cgroup2", "cgroup"):
            mounts = re.findall(rf"^\S+ (\S+) {kind} rw\S*", pathlib.Path("/proc/mounts").read_text(), re.MULTILINE)
            for mount in mounts:
                path = pathlib.Path(mount)
                if "cpuset" in path.name:  # its groups hold nobody before they are set up
                    continue
                try:
                    for part in name.split("/"):
                        path = path / part
                        path.mkdir(exist_ok=True)
                        self.groups.append(path)
                    return
                except OSError:
                    self.close()
        raise unittest.SkipTest("no control group can be made here")

    def command(self, *words):
        group = self.groups[-1] if self.groups else ""
        return ("sh", "-c", _ENTER, "sh", self.root, self.files, group, *words)

    def check_possible(self):
        done = subprocess.run([str(word) for word in self.command("true")], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise unittest.SkipTest(f"no overlay root can be made here: {done.stderr.strip()}")

    def put(self, path, source):
        """A copy of a file, for that absolute path in it."""
        target = pathlib.Path(f"{self.files}/{path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)

    def close(self):
        """Removes its groups, which must be empty by now."""
        while self.groups:
            try:
                self.groups.pop().rmdir()
            except OSError:
                pass  # others use it, or it was there before
