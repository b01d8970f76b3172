# SPDX-License-Identifier: Apache-2.0
"""Names that are hard to get right or to print, from the program to the report: extreme and odd ones, code that is
overwritten, the last call of a function, files without build ids or with odd ones."""

import collections
import os
import re
import shutil
import subprocess

import analysis
import frames
import harness
import kernel
import truth
import work_case

MAIN = """
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
typedef void spin(long turns);
extern spin* functions[];
int main(void) {
  char name[64];
  int units;
  prctl(PR_SET_NAME, "semi;[comm 7");
  while (scanf("%63s %d", name, &units) == 2) {
    for (int i = 0; i < units; i++)
      for (spin** each = functions; *each; each++) (*each)(100000);
    puts("done");
    fflush(stdout);
  }
  return 0;
}
"""
# A function of its own frame that spins; its size is said, or it would own what follows.
SPIN = '.type "{0}",@function\n"{0}": push %rbp\nmov %rsp,%rbp\n1: dec %rdi\njnz 1b\npop %rbp\nret\n.size "{0}",.-"{0}"\n'


def doubling_bomb():
    """Each type is twice the one before: a kilobyte that means more than there is memory."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    name = "_Z1fSt4pairIiiE"
    for i in range(150):
        number = (digits[i // 36] if i >= 36 else "") + digits[i % 36]
        name += f"St4pairIS{number}_S{number}_E"
    return name


class NamesCase(work_case.WorkCase):
    UNITS = 100

    def setUp(self):
        super().setUp()
        if os.uname().machine != "x86_64" or shutil.which("gcc") is None:
            self.skipTest("needs gcc for x86-64")

    def compile(self, program, *sources, options=()):
        files = []
        for number, (text, ending) in enumerate(sources):
            files.append(self.stage.folder / f"source{number}{ending}")
            files[-1].write_bytes(text.encode("latin1"))
        words = ["gcc", "-O1", "-fno-omit-frame-pointer", *options, "-o", program, *files]
        done = subprocess.run(words, check=False, timeout=60, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return program


class Odd(NamesCase):
    # As they stand in the symbol table, and what is shown; what begins so and ends in a marker is cut.
    NAMES = (
        ("_Z1f" + "P" * 900 + "i", f"f(int{'*' * 900})"),
        ("_Z1f" + "P" * 4000 + "i", "_Z1fPPP"),  # deeper than the demangler goes
        (doubling_bomb(), "f(std::pair<int, int>, std::pair<std::pair<int, int>, "),
        ("_Z1fI" + "Ss" * 30_000 + "Evv", "_Z1fISsSs"),
        ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
        ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"),
        ("_ZN12_GLOBAL__N_13fooEv", "(anonymous namespace)::foo()"),
        ("_Z", "_Z"),
        ("semi;colon fn", "semi;colon fn"),
        ("semi:colon fn", "semi:colon fn"),
        ("ends 42", "ends 42"),
        ("line feed", "line\nfeed"),
        ("line return", "line\rreturn"),
        ("\xff\xc0", "\\xff\\xc0"),
        ("no symbol at all", ""),
    )

    def build(self):
        functions = "".join(SPIN.format(name) for name, _ in self.NAMES)
        table = "".join(f'.quad "{name}"\n' for name, _ in self.NAMES)
        text = f".text\n{functions}.data\n.globl functions\nfunctions:\n{table}.quad 0\n.section .note.GNU-stack\n"
        program = self.compile(self.stage.folder / "semi;app [1]", (MAIN, ".c"), (text, ".s"))
        new = [f"--redefine-sym={old}={old.replace(' ', byte)}" for old, byte in (("line feed", "\n"), ("line return", "\r"))]
        subprocess.run(["objcopy", *new, "--strip-symbol=no symbol at all", program], check=True)
        return program

    def test_they_are_told_apart(self):
        program = self.build()
        recording = self.record(self.worker(program))
        own = sorted(frame for frame in frames.frames_of(recording.files) if frame.file == str(program))
        shown = list(dict.fromkeys(frame.name for frame in own if frame.name not in ("main", "_start")))
        self.assertEqual(len(shown), len(self.NAMES), [name[:60] for name in shown])
        for name, (_, expected) in zip(shown, self.NAMES):  # they lie in this order
            if name != expected:
                self.assertTrue(name.startswith(expected) and name.endswith(truth.CUT), name[:200])
                self.assertLessEqual(len(name.encode()), 2048)
        self.check_folded(recording)

    def check_folded(self, recording):
        """Each line has a count and as many frames as the stack, and leads back to their names."""
        expected = collections.Counter()
        for row in recording.rows():
            for stack in row["stacks"]:
                expected[tuple(reversed(stack["frames"]))] += stack["count"]
        found = collections.Counter()
        for line in harness.report(recording.files, "--format", "folded").removesuffix("\n").split("\n"):
            stack, _, count = line.rpartition(" ")
            names = (re.sub(r"\\x((?!5c)[0-7][0-9a-f])", lambda match: chr(int(match[1], 16)), each) for each in stack.split(";"))
            found[tuple(names)] += int(count)
        self.assertEqual(found, expected)
        self.assertTrue(any("semi;app [1]+0x" in frame for stack in expected for frame in stack))


JIT = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static unsigned char* code;
static FILE* map;
static void say(long from, long bytes, const char* name) {
  fprintf(map, "%lx %lx %s\n", (unsigned long)code + from, bytes, name);
  fflush(map);
}
int main(void) {
  static const unsigned char spin[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3};
  static const int places[] = {8, 40, 100, 300};
  char name[64];
  int units;
  code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 4; i++) memcpy(code + places[i], spin, sizeof spin);
  sprintf(name, "/tmp/perf-%d.map", getpid());
  map = fopen(name, "w");
  say(0, 256, "A");
  say(64, 256, "B");
  puts("done");
  fflush(stdout);
  for (int round = 0; scanf("%63s %d", name, &units) == 2; round++) {
    if (round == 1) say(0, 32, "C");
    for (int i = 0; i < units; i++)
      for (int each = 0; each < 4; each++) ((void (*)(long))(code + places[each]))(300000);
    puts("done");
    fflush(stdout);
  }
  return 0;
}
"""


class Overwritten(NamesCase):
    def test_the_latest_line_counts_from_when_it_was_written(self):
        """JIT-01: A for [0, 256), then B for [64, 320), and C for [0, 32) when the first span was flushed."""
        worker = self.worker(self.compile(self.stage.folder / "jit", (JIT, ".c")))
        self.assertEqual(worker.process.stdout.readline(), "done\n")
        self.addCleanup(os.unlink, f"/tmp/perf-{worker.pid}.map")
        running = self.stage.begin_record("-F", work_case.FREQ, "-p", worker.pid, "--flush", "500ms", "-v")
        kernel.await_recorder(running.pid)
        entries = kernel.ContextMap(self.stage.ctx_map)
        self.addCleanup(entries.close)
        for kind in (1, 2):
            entries.set(worker.pid, worker.pid, work_case.TRACE, work_case.span_id(kind))
            worker.spend("work", self.UNITS)
            entries.clear(worker.pid, worker.pid)
            running.await_error("debug: spent ", running.err().count("debug: spent ") + 2)
        worker.finish()
        recording = self.stage.finish(running).check()
        leaves = {}
        for row in analysis.span_rows(recording.rows()):
            own = leaves.setdefault(analysis.kind_of(row), collections.Counter())
            for stack in row["stacks"]:
                own[stack["frames"][0]] += stack["count"]
        for kind, names in ((1, {"A", "B"}), (2, {"A", "B", "C"})):
            named = sum(leaves[kind][name] for name in names)
            self.assertLessEqual(leaves[kind].keys() & {"A", "B", "C"}, names)
            self.assertGreater(min(leaves[kind][name] for name in names), 0.1 * named, leaves)
        page = min(frame.address for frame in frames.frames_of(recording.files) if frame.file == "[anon jit]") & ~0xFFF
        names = collections.defaultdict(set)
        for frame in frames.frames_of(recording.files):
            names[(frame.address - page) // 20 if frame.file == "[anon jit]" else None].add(frame.name)
        self.assertEqual([names[place // 20] for place in (8, 40, 100, 300)], [{"A", "C"}, {"A"}, {"B"}, {"B"}])


LAST_CALL = """
#include <stdio.h>
#include <unistd.h>
__attribute__((noreturn, noinline)) static void spinner(long turns) {
  while (turns-- > 0) __asm__ volatile("" : "+r"(turns));
  _exit(0);
}
__attribute__((noreturn, noinline)) void real_caller(long turns) { spinner(turns); }
__attribute__((noinline)) int innocent_next(int n) { return n * 3; }
int main(void) {
  char name[64];
  int units;
  puts("done");
  fflush(stdout);
  if (scanf("%63s %d", name, &units) != 2) return innocent_next(units);
  real_caller(units * 1000000L);
}
"""


class LastCall(NamesCase):
    def test_it_is_its_callers(self):
        """SYM-12: the return address of a call that does not return is the next function's first byte."""
        options = ("-O2", "-falign-functions=1", "-fno-reorder-functions", "-fno-toplevel-reorder")
        program = self.compile(self.stage.folder / "last", (LAST_CALL, ".c"), options=options)
        text = truth.output_of("objdump", "-d", "--no-show-raw-insn", program)
        self.assertRegex(text, r"call .*<spinner>\n\n[0-9a-f]+ <innocent_next>:")
        worker = self.worker(program)
        self.assertEqual(worker.process.stdout.readline(), "done\n")
        running = self.stage.begin_record("-F", work_case.FREQ, "-p", worker.pid)
        kernel.await_recorder(running.pid)
        entries = kernel.ContextMap(self.stage.ctx_map)
        self.addCleanup(entries.close)
        entries.set(worker.pid, worker.pid, work_case.TRACE, work_case.span_id(1))
        worker.process.stdin.write("alpha 500\n")
        worker.process.stdin.flush()
        worker.process.wait(60)
        recording = self.stage.finish(running).check()
        (row,) = analysis.span_rows(recording.rows())
        called = sum(stack["count"] for stack in row["stacks"] if "real_caller" in stack["frames"])
        self.assertGreater(called, 0.9 * harness.samples(row), row["stacks"])
        self.assertNotIn("innocent_next", analysis.names_in([row]))


class BuildIds(NamesCase):
    """BID-01."""

    KEY = "process.executable.build_id."
    FORMS = {
        "short": ("0xdeadbeef", "deadbeef"), "md5": ("md5", None), "sha1": ("sha1", None), "long": ("0x" + "c3" * 32, "c3" * 32),
        "none_one": ("none", ""), "none_two": ("none", ""), "headless": ("0xfeedface", "feedface"), "fast": ("fast", None),
    }

    def build(self, form, value):
        options = [f"-Wl,--build-id={value}", f"-DOWN=\"{form}\"", *(["-fuse-ld=lld"] if form == "fast" else [])]
        text = ".text\n" + SPIN.format("alpha") + ".data\n.globl functions\nfunctions: .quad alpha, 0\n.section .note.GNU-stack\n"
        mark = f'const char* own = "{form}";\n'
        program = self.compile(self.stage.folder / form, (mark + MAIN, ".c"), (text, ".s"), options=options)
        if form == "headless":  # no section headers: e_shoff, e_shnum and e_shstrndx
            content = bytearray(program.read_bytes())
            content[40:48], content[60:64] = bytes(8), bytes(4)
            program.write_bytes(content)
        return program

    def test_each_form(self):
        forms = dict(self.FORMS)
        if shutil.which("ld.lld") is None:
            del forms["fast"]
            print("\nSKIPPED: ld.lld is not installed, so no id of 8 bytes is made")
        programs = {form: self.build(form, value) for form, (value, _) in forms.items()}
        workers = [self.worker(program) for program in programs.values()]
        running = self.stage.begin_record("-F", work_case.FREQ, "-p", ",".join(str(worker.pid) for worker in workers))
        kernel.await_recorder(running.pid)
        entries = kernel.ContextMap(self.stage.ctx_map)
        self.addCleanup(entries.close)
        for worker in workers:
            entries.set(worker.pid, worker.pid, work_case.TRACE, work_case.span_id(1))
            worker.spend("alpha", 3000)
            worker.finish()
        recording = self.stage.finish(running).check()
        found = frames.mappings_of(recording.files)
        hashes = set()
        for form, (_, expected) in forms.items():
            (attributes,) = found[str(programs[form])]
            attributes = dict(attributes)
            if expected is None:
                expected = re.search(r"Build ID: (\w+)", truth.output_of("readelf", "-n", programs[form]))[1]
            self.assertEqual(attributes.get(self.KEY + "gnu", ""), expected, form)
            hashes.add(attributes[self.KEY + "htlhash"])
        self.assertEqual(len(hashes), len(forms))
        named = {frame.file for frame in frames.frames_of(recording.files) if frame.name == "alpha"}
        self.assertEqual(named, {str(program) for form, program in programs.items() if form != "headless"})
