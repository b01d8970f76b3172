# SPDX-License-Identifier: Apache-2.0
"""Stacks of runtimes that have their own ideas of one: Go, which changes stacks and interrupts itself, with and without C
below it; the Java VM, with and without frame pointers; and redis as Debian builds it. `bench/truth` holds such programs
against another unwinder."""

import os
import pathlib
import re
import shutil
import subprocess
import time
import unittest

import jit_worker
import kernel
import test_foreign_root
import test_unwind

FREQ = 999

GO = """package main
import ("encoding/json"; "os"; "runtime"; "sort"; "syscall"; "time")
type item struct { ID int; Tags map[string]string; Sub []item }
func build(d int) item {
	it := item{ID: d, Tags: map[string]string{"a": "b"}}
	if d > 0 { it.Sub = append(it.Sub, build(d-1), build(d-1)) }
	return it
}
//go:noinline
func grow(n int) int { var pad [256]byte; pad[n&255] = 1; if n == 0 { return 1 }; return grow(n-1) + int(pad[n&255]) }
//go:noinline
func leaf(n int) int { s := 0; for i := 0; i < n; i++ { s = s*31 + i }; return s }
//go:noinline
func inner(n int) int { return leaf(n) + 1 }
//go:noinline
func outer(n int) int { return inner(n) + 1 }
//go:noinline
func faults(p *int) (n int) { defer func() { if recover() != nil { n = outer(3000) } }(); return *p }
func work(done chan int) {
	for i := 0; ; i++ {
		text, _ := json.Marshal(build(4)); var it item; json.Unmarshal(text, &it)
		numbers := make([]int, 500); for k := range numbers { numbers[k] = k * 7919 % 1009 }; sort.Ints(numbers)
		go func() { done <- grow(100) }(); <-done
		outer(20000); faults(nil)
		if i%20 == 0 { runtime.GC(); os.ReadFile("/proc/self/stat") }
	}
}
// Time of the CPU, since others may want it, too.
func main() { go work(make(chan int)); for used := int64(0); used < 1500; { time.Sleep(20 * time.Millisecond); var all syscall.Rusage; syscall.Getrusage(0, &all); used = all.Utime.Nano() / 1e6 } }
"""
# Where a goroutine begins, a thread does, and where the scheduler has left a goroutine's stack for good.
GO_ROOTS = {"runtime.goexit", "runtime.mstart", "runtime.mcall", "runtime.morestack", "runtime.rt0_go", "_rt0_amd64_linux"}

CGO = """package main
/*
#include <stdlib.h>
#include <string.h>
extern long goLeaf(long);
static __attribute__((noinline)) long c_inner(long depth) {
	char pad[64]; memset(pad, (int)depth, sizeof pad);
	long found = depth == 0 ? goLeaf(20000) : c_inner(depth - 1);
	return found + pad[3];
}
static __attribute__((noinline)) long c_outer(long depth) { return c_inner(depth) + 1; }
*/
import "C"
import ("syscall"; "time")
//go:noinline
func spin(n int) int { s := 0; for i := 0; i < n; i++ { s = s*31 + i }; return s }
//export goLeaf
func goLeaf(n C.long) C.long { return C.long(spin(int(n))) }
//go:noinline
func work() { for { C.c_outer(2) } }
// Time of the CPU, since others may want it, too.
func main() { go work(); for used := int64(0); used < 1500; { time.Sleep(20 * time.Millisecond); var all syscall.Rusage; syscall.Getrusage(0, &all); used = all.Utime.Nano() / 1e6 } }
"""
CGO_CALLERS = re.compile(r"(main\.goLeaf|_cgoexp_\w+)( \S+)* runtime\.cgocallback crosscall2 goLeaf c_inner c_inner c_inner "
                         r"((c_outer|_cgo_\w+) )*runtime\.asmcgocall runtime\.cgocall main\._Cfunc_c_outer main\.work "
                         r"(main\.main\.gowrap1 )?runtime\.goexit")

JAVA = """
import java.util.*;
public class Busy {
  static int recurse(int d) { return d == 0 ? 1 : recurse(d - 1) + words(20).size(); }
  static List<String> words(int n) { List<String> w = new ArrayList<>(); for (int i = 0; i < n; i++) w.add("w" + i * 7919 % 101); Collections.sort(w); return w; }
  public static void main(String[] a) { var threads = java.lang.management.ManagementFactory.getThreadMXBean(); long kept = 0; while (threads.getCurrentThreadCpuTime() < 2000000000L) kept += recurse(20) + words(300).size(); System.exit(kept == 0 ? 1 : 0); }
}
"""
THREADS = {"_start", "clone3", "clone"}


def bare(frame):
    return re.sub(r"\.abi(0|internal)$", "", test_unwind.bare(frame))


class Runtime(test_unwind.UnwindCase):
    def program(self, name, text, *command, **variables):
        for tool in (command[0], "gcc") if variables.get("CGO_ENABLED") == "1" else command[:1]:
            if shutil.which(tool) is None:
                self.skipTest(f"{tool} is not installed")
        source = self.stage.folder / name
        source.write_text(text)
        done = subprocess.run([*command, source], capture_output=True, text=True, check=False, timeout=300,
                              cwd=self.stage.folder, env={**os.environ, "GOTOOLCHAIN": "local", **variables})
        self.assertEqual(done.returncode, 0, done.stderr)

    def whole(self, roots, stacks, early, least=0.995):
        """Nearly all reach one of the roots; what does not, says so."""
        total = sum(count for count, _ in stacks)
        self.assertGreater(total, 200, f"{early} samples came too early")
        cut = self.incomplete(stacks)
        self.assertLessEqual(sum(count for count, _ in cut), (1 - least) * total, cut[:5])
        others = {bare(frames[-1]) for _, frames in stacks if not frames[-1].startswith("[")} - roots
        # Who ends has no memory of its own any more, and so no stack but the kernel's.
        self.assertLessEqual(others, {"entry_SYSCALL_64_after_hwframe", "entry_SYSCALL_64"})

    def callers(self, stacks, name):
        return [(count, [bare(f) for f in frames[[bare(f) for f in frames].index(name) + 1 :]])
                for count, frames in stacks if name in map(bare, frames)]


class Go(Runtime):
    def test_stacks(self):
        self.program("busy.go", GO, "go", "build", "-o", "busy", CGO_ENABLED="0")
        for program in ("busy", "stripped"):
            with self.subTest(program):
                if program == "stripped":
                    subprocess.run(["strip", "-o", "stripped", "busy"], cwd=self.stage.folder, check=True)
                stacks, early = self.stacks_of(self.stage.folder / program)
                self.whole(GO_ROOTS, stacks, early)
                found = self.callers(stacks, "main.leaf")
                self.assertGreater(sum(count for count, _ in found), 30)
                straight = ["main.inner", "main.outer", "main.work"]
                panicked = ["main.inner", "main.outer", "main.faults.func1", "runtime.gopanic", "runtime.sigpanic",
                            "main.faults", "main.work"]
                for _, frames in found:
                    # These are there or not, as the compiler likes.
                    frames = [frame for frame in frames if frame not in ("main.main.gowrap1", "runtime.panicmem")]
                    self.assertIn(frames, [[*way, "runtime.goexit"] for way in (straight, panicked)])
                self.assertTrue(any("runtime.sigpanic" in frames for _, frames in found))

    def test_callbacks_of_c(self):
        self.program("calls.go", CGO, "go", "build", "-o", "calls", CGO_ENABLED="1")
        stacks, early = self.stacks_of(self.stage.folder / "calls")
        self.whole(GO_ROOTS | THREADS, stacks, early)
        found = self.callers(stacks, "main.spin")
        self.assertGreater(sum(count for count, _ in found), 100)
        for _, frames in found:
            self.assertRegex(" ".join(frames), CGO_CALLERS)


class Java(Runtime):
    def stacks(self, *options):
        self.program("Busy.java", JAVA, "javac", "-d", self.stage.folder)
        return self.stacks_of("java", "-Xshare:auto", *options, "-cp", self.stage.folder, "Busy")

    def entry(self):
        """What the launcher's first function is called where it has no symbols."""
        launcher = pathlib.Path(shutil.which("java") or "/nowhere").resolve()
        header = subprocess.run(["readelf", "-hW", launcher], capture_output=True, text=True, check=False).stdout
        found = re.search(r"Entry point address:\s+(0x[0-9a-f]+)", header)
        # The call in it is some instructions behind its beginning.
        return {f"java+{int(found[1], 16) + byte:#x}" for byte in range(64)} if found else set()

    def test_frame_pointers(self):
        # It loads libraries while it starts.
        self.whole(THREADS | self.entry(), *self.stacks("-XX:+PreserveFramePointer"), least=0.98)

    def test_without_frame_pointers(self):
        """The callers of compiled code are not known: no stack pretends that they are."""
        stacks, _ = self.stacks()
        compiled = [(count, frames) for count, frames in stacks if any("anon jit" in frame for frame in frames)]
        self.assertGreater(sum(count for count, _ in compiled), 300, stacks[:5])
        for _, frames in compiled:
            # The second one where its memory became code a moment ago.
            self.assertIn(frames[-1], ("[no unwind rule]", "[return address outside code]"))
            self.assertIn("anon jit", frames[-2])


class Redis(test_foreign_root.ForeignCase):
    def test_stacks(self):
        options = ("--port", "0", "--unixsocket", "/tmp/redis", "--save", "", "--appendonly", "no")
        worker = test_foreign_root.Redis(*test_foreign_root.NAMESPACES, self.root, "redis-server", *options,
                                         cwd=self.stage.folder)
        self.addCleanup(worker.close)
        worker.pid = jit_worker.first_child(worker.pid, "redis-server")
        worker.connect()
        running = self.stage.begin_record("-F", FREQ, "-p", worker.pid, "--background", "stacks")
        kernel.await_recorder(running.pid)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            worker.spend("alpha", 1)
            worker.spend("beta", 1)
        worker.close()
        recording = self.stage.finish(running).check()
        stacks = [(stack["count"], stack["frames"]) for row in recording.rows("stack") for stack in row["stacks"]]
        total = sum(count for count, _ in stacks)
        self.assertGreater(total, 300)
        known = [(count, frames) for count, frames in stacks if frames[-1] not in test_unwind.TOO_EARLY]
        self.assertGreater(sum(count for count, _ in known), 0.9 * total)
        cut = [(count, frames) for count, frames in known if test_unwind.bare(frames[-1]) not in THREADS]
        self.assertLessEqual(sum(count for count, _ in cut), 0.005 * total, cut[:5])


if __name__ == "__main__":
    unittest.main()
