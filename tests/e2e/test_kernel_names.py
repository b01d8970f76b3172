# SPDX-License-Identifier: Apache-2.0
"""The kernel's half of stacks: names as /proc/kallsyms has them, of the kernel and of BPF programs that came later; its
build id; and what is said where addresses are hidden."""

import bisect
import os
import pathlib
import re
import socket
import struct
import sys

import analysis
import frames
import harness
import kernel
import work_case

# alpha reads zeros, beta sends to a socket whose filter takes long.
PROGRAM = """
import os, sys
zero, sender = os.open("/dev/zero", os.O_RDONLY), int(sys.argv[1])
for line in sys.stdin:
    name, units = line.split()
    for _ in range(20 * int(units)):
        os.pread(zero, 1 << 20, 0) if name == "alpha" else os.write(sender, b"x")
    print("done", flush=True)
"""
SO_ATTACH_BPF = 50
HIDDEN = "shows no addresses (kernel.kptr_restrict, or CAP_SYSLOG is missing)"


class Kallsyms:
    """Read plainly: who begins last before an address owns it."""

    def __init__(self):
        lines = [line.split() for line in pathlib.Path("/proc/kallsyms").read_text().splitlines()]
        own = [(int(words[0], 16), words[2], words[1]) for words in lines if len(words) == 3]
        self.base = min(address for address, _, kind in own if kind in "tT")
        self.names = {}
        for address, name, _ in own:
            self.names.setdefault(address, set()).add(name)
        self.starts = sorted(self.names)
        self.programs = {words[2] for words in lines if words[3:] == ["[bpf]"]}

    def owners(self, offset):
        return self.names[self.starts[bisect.bisect_right(self.starts, self.base + offset) - 1]]


def build_id_of_kernel():
    """The first note of the type 3 of "GNU"; names and contents are padded to four bytes."""
    notes, at = pathlib.Path("/sys/kernel/notes").read_bytes(), 0
    while at + 12 <= len(notes):
        name_bytes, bytes_, kind = struct.unpack_from("=III", notes, at)
        content = at + 12 + (name_bytes + 3) // 4 * 4
        if kind == 3 and notes[at + 12 : at + 16] == b"GNU\0":
            return notes[content : content + bytes_].hex()
        at = content + (bytes_ + 3) // 4 * 4
    return ""


class KernelCase(work_case.WorkCase):
    UNITS = 50

    def start(self):
        """The worker, and the filter's name; the filter is loaded while it is profiled."""
        program = kernel.load_program(b"slow_filter", 60)
        tag = re.search(r"^prog_tag:\s*(\w+)", pathlib.Path(f"/proc/self/fdinfo/{program}").read_text(), re.MULTILINE)[1]
        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for end in ends:
            self.addCleanup(end.close)
        ends[0].setsockopt(socket.SOL_SOCKET, SO_ATTACH_BPF, struct.pack("=i", program))
        os.close(program)
        worker = self.worker(sys.executable, "-c", PROGRAM, str(ends[1].fileno()), pass_fds=[ends[1].fileno()])
        return worker, f"bpf_prog_{tag}_slow_filter"

    def record_behind(self, *prefix):
        """What a recorder sees that is started by these words."""
        worker, _ = self.start()
        tid = worker.warm_up(work_case.FUNCTIONS.values(), self.UNITS)
        output = self.stage.folder / "hidden.otlp"
        words = ("record", "--ctx-map", self.stage.ctx_map, "-F", work_case.FREQ, "-p", worker.pid, "-o", output)
        running = self.stage.start(*prefix, harness.SPANFOLD, *words)
        kernel.await_recorder(running.pid)
        self.spend(worker, tid)
        worker.finish()
        return harness.Recording(running, running.wait(), output).check()

    def check_says_hidden(self, recording):
        self.assertEqual(recording.stderr.count(HIDDEN), 1, recording.stderr)
        found = [frame for frame in frames.frames_of(recording.files) if frame.kind == "kernel"]
        self.assertTrue(found)
        self.assertEqual({(frame.file, frame.name) for frame in found}, {("", "")})


class Shown(KernelCase):
    def setUp(self):
        super().setUp()
        if not re.search(r"^0*[1-9a-f]", pathlib.Path("/proc/kallsyms").read_text(), re.MULTILINE):
            self.skipTest("/proc/kallsyms shows no addresses here (kernel.kptr_restrict)")

    def test_names_and_build_id(self):
        worker, program = self.start()
        running, tid = self.begin(worker)
        self.spend(worker, tid)
        worker.finish()
        recording = self.stage.finish(running).check()
        truth = Kallsyms()
        found = frames.frames_of(recording.files)
        own = [frame for frame in found if frame.file == "[kernel]"]
        wrong = [(frame, truth.owners(frame.address)) for frame in own if frame.name not in truth.owners(frame.address)]
        self.assertEqual(wrong, [])
        self.assertGreater(len(own), 10)
        print(f"\n{len(own)} kernel frames, all equal")
        # The filter came after the recorder's first look at the kernel's symbols, or before: it has its name in any case.
        self.assertIn(program, truth.programs)
        self.assertEqual({frame.name for frame in found if frame.file == "[bpf]"}, {program})
        counts = analysis.check_right_spans(recording.rows(), {1: {"__x64_sys_pread64"}, 2: {program}})
        self.assertGreater(counts[2][program], 0.5 * counts[2].total(), counts)
        self.assertEqual({frame.kind for frame in own}, {"kernel"})
        ((*attributes,),) = frames.mappings_of(recording.files)["[kernel]"]
        self.assertEqual(dict(attributes).get("process.executable.build_id.gnu", ""), build_id_of_kernel())
        self.assertIn("process.executable.build_id.htlhash", dict(attributes))


class Hidden(KernelCase):
    def test_without_the_capability(self):
        without = ("setpriv", "--bounding-set", "-syslog", "--inh-caps", "-syslog")
        shown = harness.run(*without, "sh", "-c", "grep -vm 1 '^0* ' /proc/kallsyms")[1]
        if shown:
            self.skipTest("this kernel shows addresses also without CAP_SYSLOG (kernel.perf_event_paranoid)")
        self.check_says_hidden(self.record_behind(*without))

    def test_restricted_for_all(self):
        """As with kernel.kptr_restrict=2, which is the whole host's: in a mount namespace of the recorder's own."""
        zeros = self.stage.folder / "kallsyms"
        zeros.write_text("".join(f"{'0' * 16} t {name}\n" for name in ("_stext", "do_syscall_64", "_etext")))
        script = f"mount --bind {zeros} /proc/kallsyms && exec \"$@\""
        self.check_says_hidden(self.record_behind("unshare", "--mount", "sh", "-c", script, "sh"))
