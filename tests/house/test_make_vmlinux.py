# SPDX-License-Identifier: Apache-2.0
"""BTF is found wherever a kernel may carry it, and the header that is made of it compiles and relocates."""
import gzip
import shutil
import struct
import subprocess
import unittest

import trees

btf = trees.load("btf")
vmlinux = trees.load("make-vmlinux")

SOURCE = """
typedef unsigned int u32;
typedef unsigned long long __u64;
typedef struct { int counter; } atomic_t;
enum color { RED, GREEN = 5 };
enum { LONE_SMALL = 3 } small;
struct inner { long a; };
struct unlisted { long b; };
struct whole { char name[16]; u32 id; unsigned int low : 3; unsigned int high : 5; };
struct node { struct node *next; const char *label; void (*call)(int); int (*table)[4]; };
struct big {
	struct { struct { int deep; }; int left_out; long near; };
	union { int as_int; long as_long; };
	struct { unsigned long value; unsigned long other; } uw;
	struct inner inner;
	struct unlisted unlisted;
	atomic_t count;
	enum color color;
	volatile const __u64 many[2][3];
	struct node *nodes;
	struct whole wholes[2];
};
struct big big;
struct node node;
"""


class Kernel(trees.TreeCase):
    """A "kernel" whose types a compiler made."""

    @classmethod
    def setUpClass(cls):
        if not shutil.which("clang"):
            raise unittest.SkipTest("clang is missing: run scripts/setup.sh")
        cls.elf = subprocess.run(["clang", "-target", "bpf", "-g", "-O2", "-x", "c", "-c", "-o", "/dev/stdout", "-"],
                                 input=SOURCE.encode(), stdout=subprocess.PIPE, check=True).stdout
        cls.raw = btf.elf_section(cls.elf, b".BTF")

    def header(self, types, arch="x86_64"):
        found, _ = btf.find_btf(self.elf)
        return vmlinux.Header(found, vmlinux.read_list(types, arch)).text("a test")

    def compile(self, header, code):
        self.plant({"vmlinux.h": header, "x.c": '#include "vmlinux.h"\n' + code})
        multiarch = subprocess.run(["g++", "-print-multiarch"], stdout=subprocess.PIPE, check=True).stdout.decode().strip()
        subprocess.run(["clang", "-target", "bpf", "-g", "-O2", "-Wall", "-Werror", "-idirafter", f"/usr/include/{multiarch}",
                        "-c", "x.c", "-o", "x.o"], cwd=self.root, check=True)


class Finding(Kernel):
    def check_found(self, data):
        found, _ = btf.find_btf(data)
        self.assertIn((btf.STRUCT, "big"), found.by_name)

    def test_raw(self):
        self.check_found(self.raw)

    def test_elf(self):
        self.check_found(self.elf)

    def test_in_an_image_among_other_bytes(self):
        self.check_found(b"MZ" + bytes(4000) + self.raw + bytes(100))

    def test_behind_bytes_that_only_look_like_it(self):
        self.check_found(self.raw[:8] + bytes(64) + b"\x9f\xeb\x01\x00\x18" + bytes(100) + self.raw)

    def test_the_largest_of_several(self):
        small = struct.pack("<HBBIIIIIIII", 0xEB9F, 1, 0, 24, 0, 12, 12, 1, 0, 1 << 24, 4) + b"\0"
        self.check_found(bytes(16) + small + bytes(16) + self.raw + small)

    def test_packed_by_gzip(self):
        self.check_found(gzip.compress(bytes(64) + self.raw))

    def test_in_an_efi_zboot_image(self):
        packed = gzip.compress(bytes(64) + self.raw)
        head = struct.pack("<4s4sII8s", b"MZ\0\0", b"zimg", 64, len(packed), b"") + b"gzip"
        self.check_found(head.ljust(64, b"\0") + packed + b"tail")

    def test_in_a_bzimage(self):
        head = bytearray(0x400)
        head[0x1F1] = 1
        head[0x202:0x206] = b"HdrS"
        packed = gzip.compress(self.raw)
        struct.pack_into("<2I", head, 0x248, 0, len(packed))
        self.check_found(bytes(head) + packed)

    def test_nothing_there(self):
        for data in (b"", b"\x7fELF", bytes(5000), self.raw[:100]):
            with self.assertRaises(btf.BtfError):
                btf.find_btf(data)

    def test_enums_of_64_bits(self):
        # Kind 19, two values, unsigned and signed: clang 14 cannot make them.
        for flag, expected in ((0, 0xFFFFFFFF00000001), (1 << 31, -0xFFFFFFFF)):
            types = struct.pack("<9I", 0, 19 << 24 | flag | 2, 8, 1, 7, 0, 3, 1, 0xFFFFFFFF)
            blob = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), 5) + types + b"\0A\0B\0"
            found = btf.Btf(blob).types[1]
            self.assertEqual(found.members, [("A", 7), ("B", expected)])
            self.assertIn("B = %d" % expected, vmlinux.Header.enum_body(found))

    def test_release(self):
        self.assertEqual(btf.kernel_release(b"\0Linux version 6.1.0-x (a@b) (gcc) #1 SMP\0"), "6.1.0-x")
        self.assertEqual(btf.kernel_release(b"no banner"), "")


class Making(Kernel):
    def test_fields_keep_their_nesting(self):
        header = self.header("struct big deep near as_long uw.value")
        self.assertIn("struct {\n\t\tstruct {\n\t\t\tint deep;\n\t\t};\n\t\tlong near;\n\t};", header)
        self.assertIn("union {\n\t\tlong as_long;\n\t};", header)
        self.assertIn("struct {\n\t\tunsigned long value;\n\t} uw;", header)
        self.assertNotIn("left_out", header)
        self.assertNotIn("other", header)
        self.compile(header, "unsigned long f(struct big *b) { return b->deep + b->near + b->as_long + b->uw.value; }")

    def test_values_of_listed_types_come_first(self):
        header = self.header("struct big inner count wholes many\nstruct inner *\nstruct whole *\ntypedef atomic_t")
        self.assertLess(header.index("struct inner {"), header.index("struct big {"))
        self.assertIn("__u64 many[2][3];", header)
        self.compile(header, "long f(struct big *b) { return b->inner.a + b->count.counter + b->wholes[1].id + b->many[1][2]; }")

    def test_pointers(self):
        header = self.header("struct node *\nstruct big nodes")
        self.assertIn("const char *label;", header)
        self.assertIn("void *call;", header)
        self.assertIn("int (*table)[4];", header)
        self.compile(header, "const char *f(struct big *b) { return b->nodes->next->label; }")

    def test_a_pointer_to_an_unlisted_type_is_declared_ahead(self):
        self.assertIn("\nstruct node;\n", self.header("struct big nodes"))

    def test_all_fields_but_those_that_cannot_be_had(self):
        header = self.header("struct big *")
        self.assertIn("int left_out;", header)
        self.assertNotIn("unlisted", header)
        self.assertNotIn("sizeof(struct big)", header)

    def test_a_named_field_of_an_unlisted_type_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "big.unlisted: list struct unlisted"):
            self.header("struct big unlisted")

    def test_whole_types_assert_their_size(self):
        header = self.header("struct whole *")
        self.assertIn("_Static_assert(sizeof(struct whole) == 24", header)
        self.assertIn("unsigned int high: 5;", header)
        self.compile(header, "struct whole w;")

    def test_enums(self):
        header = self.header("enum color\nvalues LONE_SMALL\nstruct inner *")
        self.assertIn("GREEN = 5,", header)
        self.assertIn("LONE_SMALL = 3,", header)
        self.compile(header, "int f(int x) { return x == LONE_SMALL ? RED : GREEN; }")

    def test_an_enum_in_a_field_comes_along(self):
        self.compile(self.header("struct big color"), "int f(struct big *b) { return b->color == GREEN; }")

    def test_missing_fields(self):
        with self.assertRaisesRegex(SystemExit, "struct inner has no b, c"):
            self.header("struct inner a c b")
        self.assertIn("long a;", self.header("struct inner a b? c?"))

    def test_missing_types(self):
        for line in ("struct none *", "enum none", "typedef none", "values NONE"):
            with self.subTest(line=line), self.assertRaisesRegex(SystemExit, "this kernel has no"):
                self.header(line)

    def test_lists(self):
        text = "# a comment\nstruct a b # why\n\tc\n\narm64 struct d *\nvalues E\n  F\n"
        self.assertEqual(vmlinux.read_list(text, "x86_64"), [("struct", "a", ["b", "c"]), ("values", "", ["E", "F"])])
        self.assertEqual(len(vmlinux.read_list(text, "arm64")), 3)
        with self.assertRaisesRegex(SystemExit, "cannot read"):
            vmlinux.read_list("strukt a", "arm64")

    def test_fields_are_relocated(self):
        self.compile(self.header("struct big near"), "long f(struct big *b) { return b->near; }")
        sections = subprocess.run(["readelf", "-S", "-W", "x.o"], cwd=self.root, stdout=subprocess.PIPE, check=True).stdout
        self.assertIn(b".BTF.ext", sections)
        # The access goes by name: the string `0:0:…` of the path stands among BTF's strings.
        self.assertRegex((self.root / "x.o").read_bytes(), rb"\0000(:\d+)+\0")


class Committed(trees.TreeCase):
    def test_both_headers_stand_beside_the_abi(self):
        code = ('#include "vmlinux.h"\n#include "bpf/abi.h"\n#include <bpf/bpf_helpers.h>\n#include <bpf/bpf_core_read.h>\n'
                '#include <bpf/bpf_tracing.h>\n'
                "long f(struct task_struct *t, struct bpf_perf_event_data *c)\n"
                "{ return BPF_CORE_READ(t, mm, start_code) + PT_REGS_IP(&c->regs) + BPF_RB_NO_WAKEUP + BPF_ANY; }\n")
        multiarch = subprocess.run(["g++", "-print-multiarch"], stdout=subprocess.PIPE, check=True).stdout.decode().strip()
        for folder, name in (("x86_64", "x86"), ("arm64", "arm64")):
            with self.subTest(arch=folder):
                subprocess.run(["clang", "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror",
                                f"-D__TARGET_ARCH_{name}", "-I.", f"-Ivmlinux/{folder}", "-idirafter",
                                f"/usr/include/{multiarch}", "-x", "c", "-c", "-o", "/dev/null", "-"],
                               input=code.encode(), cwd=trees.ROOT, check=True)

    def test_headers_are_small(self):
        for path in (trees.ROOT / "vmlinux").glob("*/vmlinux.h"):
            self.assertLessEqual(len(path.read_text().splitlines()), 2000, path)


if __name__ == "__main__":
    unittest.main()
