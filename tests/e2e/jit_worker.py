# SPDX-License-Identifier: Apache-2.0
"""Programs in languages that are compiled while they run. Each reads lines from standard input: the name of a function
and how many units of work to do in it, each about a millisecond; and answers `done`."""

import os
import pathlib
import re
import shutil
import subprocess
import time

NODE = """
const fs = require("fs");
function alpha(n) { let s = 0; for (let i = 0; i < n; i++) s += Math.sqrt(i) ^ i; return s; }
function beta(n) { let s = 0; for (let i = 0; i < n; i++) s += (i * 0.7) ^ i; return s; }
function outer(f, units) { let s = 0; for (let i = 0; i < 50 * units; i++) s += f(20000); return s; }
function main() {
  let text = "";
  const bytes = Buffer.alloc(256);
  for (;;) {
    let got = 0;
    try { got = fs.readSync(0, bytes); } catch (error) { if (error.code === "EAGAIN") continue; throw error; }
    if (got === 0) return;
    text += bytes.toString("latin1", 0, got);
    for (let at; (at = text.indexOf("\\n")) >= 0; text = text.slice(at + 1)) {
      const [name, units] = text.slice(0, at).split(" ");
      outer(name === "alpha" ? alpha : beta, Number(units));
      fs.writeSync(1, "done\\n");
    }
  }
}
"""
NODE_MAIN = NODE + "main();\n"
# The same in a thread that is not the process's first.
NODE_THREAD = f"""
const {{ Worker, isMainThread }} = require("worker_threads");
{NODE}
if (isMainThread) new Worker({NODE_MAIN!r}, {{ eval: true }});
"""

JAVA = """
import java.io.*;
public class Work {
  static long alpha(int n) { long s = 0; for (int i = 0; i < n; i++) s += (long) Math.sqrt(i) ^ i; return s; }
  static long beta(int n) { long s = 0; for (int i = 0; i < n; i++) s += (long) (i * 0.7) ^ i; return s; }
  static long outer(boolean first, long units) {
    long s = 0;
    for (long i = 0; i < 50 * units; i++) s += first ? alpha(20000) : beta(20000);
    return s;
  }
  public static void main(String[] words) throws IOException {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null; ) {
      String[] parts = line.split(" ");
      outer(parts[0].equals("alpha"), Long.parseLong(parts[1]));
      System.out.println("done");
    }
  }
}
"""

PYTHON = """
import sys
def alpha(n):
    s = 0
    for i in range(n):
        s += i * i
    return s
def beta(n):
    s = 0
    for i in range(n):
        s += i ^ 7
    return s
def outer(work, units):
    for _ in range(10 * units):
        work(2000)
for line in sys.stdin:
    name, units = line.split()
    outer(alpha if name == "alpha" else beta, int(units))
    print("done", flush=True)
"""


class Worker:
    """One of them, as a process."""

    def __init__(self, *command, **kwargs):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, **kwargs)
        self.pid = self.process.pid

    def spend(self, name, units):
        self.process.stdin.write(f"{name} {units}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if answer != "done\n":
            raise AssertionError(f"{self.process.args} answers {answer!r}")

    def warm_up(self, names, units=300):
        """Lets it start and compile what it needs; gives the thread that does the work."""
        before = self.ticks_of_threads()
        for name in names:
            self.spend(name, units)
        after = self.ticks_of_threads()
        return max(after, key=lambda tid: after[tid] - before.get(tid, 0))

    def ticks_of_threads(self):
        """User CPU time in clock ticks by thread: field 14 of their stat, the 12th behind the name."""
        folder = pathlib.Path(f"/proc/{self.pid}/task")
        return {int(tid): int((folder / tid / "stat").read_text().rpartition(")")[2].split()[11]) for tid in os.listdir(folder)}

    def finish(self):
        """Lets it come to its end."""
        self.process.stdin.close()
        self.process.wait(60)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def first_child(pid, name="node", seconds=30):
    """Who `unshare --fork` started, as this host numbers it, once it has become the program itself."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children and pathlib.Path(f"/proc/{children[0]}/comm").read_text() == f"{name}\n":
            return int(children[0])
        time.sleep(0.05)
    raise AssertionError(f"process {pid} starts no {name}")


def python_with_perf():
    """(path, "") of a CPython that names its functions and keeps frame pointers, or ("", why there is none)."""
    reason = "no python3 of version 3.12 or later is installed"
    ask = "import sys, sysconfig; print(sys.version_info >= (3, 12), sysconfig.get_config_var('CFLAGS'))"
    for name in ("python3", "python3.12", "python3.13", "python3.14"):
        path = shutil.which(name)
        answer = subprocess.run([path, "-c", ask], capture_output=True, text=True, check=False).stdout if path else ""
        if not answer.startswith("True"):
            continue
        if re.search(r"-fno-omit-frame-pointer", answer):
            return path, ""
        reason = f"{path} was built without frame pointers, so there are no stacks to name"
    return "", reason
