#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes first inputs for the fuzzers: small honest files of each kind. `seeds.py FOLDER`; needs as, ld, objcopy.

They are most of the corpus in the tree."""
import lzma
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

PROGRAM = """
    .text
    .globl _start, one, two, chosen
    .type _start,@function
    .type one,@function
    .type two,@function
    .type local,@function
_start: nop
    call other@plt
    .size _start, . - _start
one: .skip 8, 0x90
inner: .skip 8, 0x90
    .size one, . - one
two: ret
    .size two, 1
local: ret
bare: ret
    .section .note.GNU-stack, ""
"""
OTHER = ".globl other\n.type other,@function\nother: ret\n.size other, 1\n"
GO = """
    .text
    .globl _start
_start: nop
text:
one: .skip 8, 0x90
two: .skip 4, 0x90
etext: nop
    .section .gopclntab, "a"
    .balign 32
table: .long 0xfffffff1
    .byte 0, 0, 1, 8
    .quad 2, 0, text, names - table, units - table, files - table, data - table, functions - table
names: .asciz "main.one"
    .asciz "main.two"
units: .long 0
files: .long 0
data: .long 0
    .balign 8
functions: .long one - text, f_one - functions, two - text, f_two - functions, etext - text
f_one: .long one - text, 0
f_two: .long two - text, 9
"""


def go_table(magic=0xFFFFFFF1, pointer=8, text=0x401000, names=b"main.one\0main.two\0"):
    """The same by hand: two functions, 8 and 4 bytes."""
    word = "<Q" if pointer == 8 else "<I"
    absolute = magic == 0xFFFFFFFA
    field = word if absolute else "<I"
    start = 8 + (7 if absolute else 8) * pointer
    offsets = [start, start + len(names), start + len(names), start + len(names)]
    functions = (start + len(names) + 7) // 8 * 8
    head = struct.pack("<IBBBB", magic, 0, 0, 1, pointer)
    head += b"".join(struct.pack(word, each) for each in [2, 0, *([] if absolute else [text]), *offsets, functions])
    base = text if absolute else 0
    size = struct.calcsize(field)
    first = 5 * size
    entries = [base, first, base + 8, first + size + 4, base + 12]
    body = b"".join(struct.pack(field, each) for each in entries)
    body += struct.pack(field, base) + struct.pack("<I", 0) + struct.pack(field, base + 8) + struct.pack("<I", 9)
    return (head + names).ljust(functions, b"\0") + body


def field(number, value):
    """A protobuf field: bytes, or a number as a varint."""
    def varint(rest):
        out = b""
        while rest > 0x7F:
            out += bytes([rest & 0x7F | 0x80])
            rest >>= 7
        return out + bytes([rest])
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def otlp(sample_type=b"samples", unit=b"count", extra=b""):
    texts = [b"", sample_type, unit, b"nanoseconds", b"main", b"/lib/a.so", b"spanfold.ticks", b"spanfold.ended",
             b"spanfold.frequency_hz"]
    rows = [field(1, b""), field(1, field(1, 4096) + field(2, 8192) + field(4, 5)), field(2, b""),
            field(2, field(1, 1) + field(2, 4660) + field(3, field(1, 1))), field(2, field(1, 1) + field(2, 4661)),
            field(3, b""), field(3, field(1, 4)), field(4, b""),
            field(4, field(1, b"\1" * 16) + field(2, b"\2" * 8)), *(field(5, text) for text in texts),
            field(6, b""), *(field(6, field(1, key) + field(2, field(3, 99))) for key in (6, 7, 8)),
            field(7, b""), field(7, field(1, b"\1\2"))]
    stamp = struct.pack("<Q", 1_700_000_000_000_000_000)
    sample = field(1, 1) + field(3, 1) + field(4, b"\7") + field(5, stamp)
    profile = (field(1, field(1, 1) + field(2, 2)) + field(2, sample) + field(2, field(1, 1) + field(4, b"\3") + extra)
               + b"\x19" + stamp + field(4, 10 ** 9) + field(5, field(2, 3)) + field(6, 10101010) + field(11, b"\1\2\3"))
    pid = field(1, field(1, b"process.pid") + field(2, field(3, 7)))
    name = field(1, field(1, b"service.name") + field(2, field(1, b"shop")))
    resource = field(1, pid + name) + field(2, field(1, field(1, b"spanfold")) + field(2, profile))
    return field(1, resource) + field(2, b"".join(rows))


def run(folder, *words):
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def elf_files():
    """Name → bytes."""
    files = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for stem, text in (("a", PROGRAM), ("other", OTHER), ("go", GO)):
            (folder / f"{stem}.s").write_text(text)
            run(folder, "as", "-o", f"{stem}.o", f"{stem}.s")
        plain = ["ld", "-z", "noseparate-code", "--build-id=sha1"]
        run(folder, *plain, "-shared", "-o", "libother.so", "other.o")
        run(folder, *plain, "-o", "static", "a.o", "other.o")
        run(folder, *plain, "-shared", "-z", "relro", "-o", "shared", "a.o", "libother.so")
        run(folder, *plain, "-o", "go", "go.o")
        run(folder, "strip", "go")
        run(folder, "objcopy", "--only-keep-debug", "shared", "shared.debug")
        run(folder, "strip", "-o", "stripped", "shared")
        run(folder, "objcopy", "--add-gnu-debuglink=shared.debug", "stripped", "linked")
        (folder / "packed.xz").write_bytes(lzma.compress((folder / "shared.debug").read_bytes()))
        run(folder, "objcopy", "--add-section", ".gnu_debugdata=packed.xz", "stripped", "packed")
        run(folder, "as", "--32", "-o", "a32.o", "other.s")
        run(folder, "ld", "-m", "elf_i386", "-z", "noseparate-code", "-e", "other", "-o", "narrow", "a32.o")
        for each in ("static", "shared", "go", "shared.debug", "stripped", "linked", "packed", "narrow"):
            files[each] = (folder / each).read_bytes()
    return files


def perf_record(kind, misc, body, time=5):
    body += struct.pack("<Q", time)
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def task_records():
    path = b"/usr/lib/libc.so.6".ljust(24, b"\0")
    fork = perf_record(7, 0, struct.pack("<IIIIQ", 7, 1, 7, 1, 5), 5)
    comm = perf_record(3, 1 << 13, struct.pack("<II8s", 7, 7, b"shop"), 6)
    place = struct.pack("<IIQQQ", 7, 7, 0x7F0000000000, 0x1000, 0x2000)
    by_inode = perf_record(10, 2, place + struct.pack("<IIQQII", 8, 3, 4711, 1, 5, 2) + path, 7)
    by_id = perf_record(10, 2 | 1 << 14, place + struct.pack("<B3x20sII", 20, b"i" * 20, 5, 2) + path, 8)
    leave = perf_record(4, 0, struct.pack("<IIIIQ", 7, 1, 7, 1, 9), 9)
    return b"\0" + fork + comm + by_inode + by_id + leave + perf_record(2, 0, struct.pack("<QQ", 1, 3), 10)


def messages():
    frames = struct.pack("<BBHI", 1, 0, 3, 0) + struct.pack("<QQII3QQII3Q", 9, 1, 2, 3, 4, 5, 6, 7, 1, 0, 1, 2, 3)
    fold = struct.pack("<BBHI", 2, 1, 2, 0) + bytes(24) + struct.pack("<QQQQQII", 1, 2, 3, 4, 5, 6, 7)
    return frames, fold + struct.pack("<QII", 1, 2, 0) * 2


def jit_dump():
    def load(address, size, name):
        body = struct.pack("<IIQQQQ", 7, 7, address, address, size, 1) + name + b"\0" + b"\x90" * size
        return struct.pack("<IIQ", 0, 16 + len(body), 0) + body
    move = struct.pack("<IIQIIQQQQQ", 1, 64, 0, 7, 7, 0x1000, 0x1000, 0x3000, 8, 1)
    return b"\1\0\0\0\0" + load(0x1000, 16, b"first") + load(0x1008, 4, b"second") + move


KALLSYMS = b"""\0\0\0\0ffffffff81000000 T _stext
ffffffff81000010 t __pfx_do_one
ffffffff81000020 T do_one
ffffffff81000020 W do_one_alias
ffffffff81000100 T _etext
ffffffff82000000 D some_data
ffffffffc0000000 t init_module\t[nf_tables]
ffffffffc0000040 t bpf_prog_1234\t[bpf]
"""
MAPS = b"""\0\0\0\x0055d0a0000000-55d0a0001000 r-xp 00000000 08:03 4711                       /usr/bin/shop
7f0000000000-7f0000002000 r-xp 00001000 08:03 4712                       /usr/lib/libc.so.6 (deleted)
7f0000001000-7f0000003000 rwxp 00000000 00:00 0
7f0000004000-7f0000005000 r-xp 00000000 00:01 9                          /memfd:doublemapper (deleted)
7f0000006000-7f0000007000 r-xp 00000000 00:01 10                         /tmp/jit-7.dump
7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0                          [vdso]
"""
STAT = b"\0\0\0\x007 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 12345 1000 10 18446744073709551615 1 2 3 0 0 0 0\n"
STATUS = b"\0\0\0\0Name:\tshop\nUid:\t1\t2\t3\t4\nNSpid:\t4711\t7\n"
CGROUP = (b"12:cpu:/docker/" + b"0123456789abcdef" * 4 + b"\n0::/kubepods.slice/cri-containerd-" + b"f" * 64
          + b".scope\n1:name=systemd:/machine.slice/libpod-" + b"a" * 64 + b".scope/container\n0::/libpod_parent/"
          + b"b" * 64 + b"/conmon-" + b"c" * 64 + b"\n")
ENVIRON = b"PATH=/bin\0OTEL_SERVICE_NAME=\0OTEL_RESOURCE_ATTRIBUTES=service.name=a%20b, k=v,service.version=1,\0"
NAMES = [b"_ZN3foo3barILi3EEEvv", b"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", b"_RNvCs1234_7mycrate3foo",
         b"_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y", b"_Z1fSt4pairIiiESt4pairIS0_S0_E",
         b"_RIC1aTuuETB2_B2_EE", b"JS:*work /app/a.js:3:7", b"py::work:/app/a.py", b"_ZZN3foo3barIJidEEEDaDpT_ENKUlvE_clEv"]


def plt_input():
    symbol = struct.pack("<IBBHQQ", 1, 0x12, 0, 0, 0, 0)
    relocation = struct.pack("<QQq", 0x404018, 1 << 32 | 7, 0)
    names = b"\0printf\0\0"
    jump = b"\xff\x25" + struct.pack("<i", 0x404018 - 0x401006) + b"\x68\0\0\0\0\xe9\0\0\0\0"
    return b"\0\6" + bytes(24) + symbol + b"\3" + relocation + b"\3" + struct.pack("<QQq", 0x404020, 37, 0x401000) + b"\1" + names[:8] + jump


def inputs():
    """(target, name, bytes)"""
    files = elf_files()
    for name, bytes_ in files.items():
        yield "elf", name, bytes_
        yield "elf_large", name, struct.pack("<HHH", 0x200, 24, 20000) + bytes_
    for name in ("linked", "stripped", "packed"):
        yield "debug_file", name, struct.pack("<H", len(files[name])) + files[name] + files["shared.debug"]
    for magic, pointer in ((0xFFFFFFF1, 8), (0xFFFFFFF0, 4), (0xFFFFFFFA, 8)):
        for kind in (0, 1):
            yield "go_table", f"{magic:x}-{pointer}-{kind}", bytes([kind]) + go_table(magic, pointer)
    yield "plt", "stub", plt_input()
    for check in (lzma.CHECK_NONE, lzma.CHECK_CRC32, lzma.CHECK_SHA256):
        yield "unpack_xz", f"check-{check}", lzma.compress(files["shared"][:600] * 2, check=check, preset=0)
    yield "unpack_xz", "bomb", lzma.compress(bytes(1 << 19), preset=0)
    yield "perf_map", "lines", b"\0\0\0\x001000 100 first\n1040 10 second\n0x1000 0x20 third one\nbad\n2000 0 none\n"
    yield "jit_dump", "records", jit_dump()
    for name, bytes_ in (("maps", MAPS), ("stat", STAT), ("status", STATUS)):
        yield "maps", name, bytes_
    yield "attributes", "cgroup", CGROUP
    yield "attributes", "environ", ENVIRON
    yield "kallsyms", "lines", KALLSYMS
    yield "task_records", "ring", task_records()
    for name, bytes_ in zip(("stack", "fold"), messages()):
        yield "messages", name, bytes_
    yield "messages", "cpus", b"0-3,5,7-8\n"
    yield "otlp", "samples", b"\0" + otlp()
    yield "otlp", "off-cpu", b"\4" + otlp(b"off_cpu", b"nanoseconds")
    yield "otlp", "times", b"\1" + otlp(b"span_thread_time", b"nanoseconds", field(5, struct.pack("<Q", 17)))
    for index, name in enumerate(NAMES):
        yield "demangle", str(index), name
        yield "text", str(index), name
    for index, text in enumerate((b"a\\x5cb \xc3\xa4\xff\\x", b"\xe2\x80\xae;\x1b[1m \n", "名前".encode())):
        yield "text", f"t{index}", text
    for index, text in enumerate((b"2.5s", b"500ms", b"10KiB", b"0123456789abcdef", b"0123456789abcdef" * 2)):
        yield "words", str(index), text


def main():
    folder = pathlib.Path(sys.argv[1])
    for target, name, bytes_ in inputs():
        (folder / target).mkdir(parents=True, exist_ok=True)
        (folder / target / name).write_bytes(bytes_)


if __name__ == "__main__":
    main()
