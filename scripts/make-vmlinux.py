#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a minimal CO-RE header of kernel types, from the BTF of a kernel and a list of the types and fields wanted.
Fields that are not wanted are left out: libbpf finds the real offsets when it loads the programs."""
import argparse
import pathlib
import platform
import sys

import btf

LINUX_TYPES = {f"__{sign}{bits}" for sign in "us" for bits in (8, 16, 32, 64)} | {
    f"__{order}{bits}" for order in ("le", "be") for bits in (16, 32, 64)}
OWN_TYPES = {f"{sign}{bits}" for sign in "us" for bits in (8, 16, 32, 64)} | {"bool", "size_t"}
KINDS = {"struct": btf.STRUCT, "union": btf.UNION, "enum": btf.ENUM, "typedef": btf.TYPEDEF}
ARCHITECTURES = {"x86_64", "arm64"}

PROLOGUE = """\
/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kernel types for CO-RE programs, made by scripts/make-vmlinux.py from {source}.
 * Partial on purpose: libbpf relocates each access. Not to be edited, see vmlinux/README.md.
 */
#ifndef __VMLINUX_H__ /* the name by which libbpf's bpf_tracing.h knows that registers have the kernel's names */
#define __VMLINUX_H__

#include <linux/types.h>

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;
typedef __kernel_size_t size_t;

enum {{
	false = 0,
	true = 1,
}};
"""
EPILOGUE = """
#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute pop
#endif

#endif
"""


class Unwanted(Exception):
    """A type that is not on the list, held by value: its field cannot be printed."""


def read_list(text, arch):
    """[(kind, name, [field, …])] of the lines that apply to `arch`; an indented line continues the one before."""
    lines = []
    for line in text.splitlines():
        line = line.partition("#")[0].rstrip()
        if line[:1].isspace() and lines:
            lines[-1] += line
        elif line:
            lines.append(line)
    wanted = []
    for words in map(str.split, lines):
        if words[0] in ARCHITECTURES and words.pop(0) != arch:
            continue
        if words[0] != "values" and (words[0] not in KINDS or len(words) < 2):
            raise SystemExit(f"make-vmlinux: cannot read '{' '.join(words)}'")
        wanted.append((words[0], words[1], words[2:]) if words[0] != "values" else ("values", "", words[1:]))
    return wanted


class Keep:
    """Which fields of a struct are wanted: all, or paths such as `pid` and `uw.tp_value`; `name?` may be missing."""

    def __init__(self, words):
        self.all = not words or words == ["*"]
        self.optional = {word.rstrip("?") for word in words if word.endswith("?")}
        self.paths = [word.rstrip("?").split(".") for word in words if word != "*"]
        self.seen = set()

    def child(self, name):
        """Keep for field `name`: None where it is not wanted."""
        if self.all:
            return Keep([])
        below = [path[1:] for path in self.paths if path[0] == name]
        if not below:
            return None
        self.seen.add(name)
        return Keep([".".join(path) for path in below if path])

    def missing(self):
        return sorted({path[0] for path in self.paths} - self.seen - self.optional)


class Header:
    def __init__(self, types, wanted):
        self.types = types
        self.fields = {(kind, name): fields for kind, name, fields in wanted if kind != "values"}
        self.forward = set()
        self.done = {}  # (kind word, name) → True when written, False while it is being written
        self.body = []
        self.asserts = []
        for kind, name, fields in wanted:
            if kind == "values":
                for value in fields:
                    self.define_values(value)
            else:
                self.define(kind, name)

    def text(self, source):
        forward = "".join(f"{each};\n" for each in sorted(self.forward) if not self.done.get(tuple(each.split())))
        asserts = "".join(self.asserts)
        return PROLOGUE.format(source=source) + "\n" + forward + "".join(self.body) + "\n" + asserts + EPILOGUE

    def find(self, kind, name):
        numbers = self.types.by_name.get((KINDS[kind], name))
        if not numbers and kind == "enum":
            numbers = self.types.by_name.get((btf.ENUM64, name))
        if not numbers:
            raise SystemExit(f"make-vmlinux: this kernel has no {kind} {name}")
        return self.types.types[numbers[0]]

    def define(self, kind, name):
        if self.done.setdefault((kind, name), None) is not None:
            return
        self.done[kind, name] = False
        found = self.find(kind, name)
        if kind == "enum":
            text = f"\nenum {name} {self.enum_body(found)};\n"
        elif kind == "typedef":
            text = f"\ntypedef {self.declare(found.type_id, name, Keep([]))};\n"
        else:
            keep = Keep(self.fields[kind, name])
            body, complete = self.struct_body(found, keep, f"{kind} {name}", 1)
            if keep.missing():
                raise SystemExit(f"make-vmlinux: {kind} {name} has no {', '.join(keep.missing())} in this kernel")
            text = f"\n{kind} {name} {body};\n"
            if complete:
                self.asserts.append(f'_Static_assert(sizeof({kind} {name}) == {found.size}, "layout as in the kernel");\n')
        self.done[kind, name] = True
        self.body.append(text)

    def define_values(self, value):
        """The anonymous enum that holds `value`, once."""
        for kind in (btf.ENUM, btf.ENUM64):
            for number in self.types.by_name.get((kind, ""), []):
                each = self.types.types[number]
                if any(name == value for name, _ in each.members):
                    if self.done.setdefault(("values", number), True) is True:
                        self.done["values", number] = number
                        self.body.append(f"\nenum {self.enum_body(each)};\n")
                    return
        raise SystemExit(f"make-vmlinux: this kernel has no anonymous enum with {value}")

    @staticmethod
    def enum_body(each):
        suffix = "ULL" if each.kind == btf.ENUM64 and not each.signed else ""
        return "{\n" + "".join(f"\t{name} = {value}{suffix},\n" for name, value in each.members) + "}"

    def struct_body(self, each, keep, where, depth):
        """The braces of a struct and what is in them; and whether nothing was left out."""
        lines, complete = [], True
        indent = "\t" * depth
        for member in each.members:
            inner = self.resolve(member.type_id)
            if not member.name:
                # An anonymous member's fields count as the fields of what holds it.
                body, whole = self.struct_body(inner, keep, where, depth + 1)
                complete = complete and whole
                if ";" in body:
                    lines.append(f"{indent}{self.word(inner)} {body};\n")
                continue
            below = keep.child(member.name)
            if below is None:
                complete = False
                continue
            try:
                text = self.declare(member.type_id, member.name, below, depth)
            except Unwanted as why:
                if not keep.all:
                    raise SystemExit(f"make-vmlinux: {where}.{member.name}: list {why} as well") from None
                complete = False
                continue
            bits = f": {member.width_bits}" if member.width_bits else ""
            lines.append(f"{indent}{text}{bits};\n")
        return "{\n" + "".join(lines) + "\t" * (depth - 1) + "}", complete

    def resolve(self, number):
        """The type behind qualifiers, tags and typedefs that are not on the list."""
        each = self.types.types[number]
        while each.kind in (btf.CONST, btf.VOLATILE, btf.RESTRICT, btf.TYPE_TAG) or (
                each.kind == btf.TYPEDEF and not self.has_name(each.name)):
            each = self.types.types[each.type_id]
        return each

    def has_name(self, name):
        return name in LINUX_TYPES or name in OWN_TYPES or ("typedef", name) in self.fields

    @staticmethod
    def word(each):
        return "union" if each.kind == btf.UNION or each.is_union else "struct"

    def is_const(self, number):
        each = self.types.types[number]
        while each.kind in (btf.CONST, btf.VOLATILE, btf.TYPE_TAG):
            if each.kind == btf.CONST:
                return True
            each = self.types.types[each.type_id]
        return False

    def declare(self, number, name, keep, depth=1):
        """A C declaration of `name`; raises Unwanted."""
        each = self.resolve(number)
        if each.kind == btf.PTR:
            return self.declare_pointer(each, name, keep, depth)
        if each.kind == btf.ARRAY:
            return self.declare(each.type_id, f"{name}[{each.count}]", keep, depth)
        if each.kind in (btf.STRUCT, btf.UNION):
            return f"{self.value(each, keep, depth)} {name}"
        if each.kind in (btf.ENUM, btf.ENUM64):
            if not each.name:
                return f"enum {self.enum_body(each)} {name}"
            self.define("enum", each.name)
            return f"enum {each.name} {name}"
        if each.kind == btf.TYPEDEF:
            if ("typedef", each.name) in self.fields:
                self.define("typedef", each.name)
            return f"{each.name} {name}"
        if each.kind in (btf.INT, btf.FLOAT) and each.size <= 8:
            return f"{each.name} {name}"
        raise Unwanted(f"'{each.name}'")

    def value(self, each, keep, depth):
        """A struct or union held by value."""
        if not each.name:
            return f"{self.word(each)} {self.struct_body(each, keep, 'a nameless struct', depth + 1)[0]}"
        if (self.word(each), each.name) not in self.fields:
            raise Unwanted(f"{self.word(each)} {each.name}")
        self.define(self.word(each), each.name)
        return f"{self.word(each)} {each.name}"

    def declare_pointer(self, each, name, keep, depth):
        target = self.resolve(each.type_id)
        const = "const " if self.is_const(each.type_id) else ""
        pointer = f"(*{name})" if target.kind == btf.ARRAY else f"*{name}"
        if target.kind in (btf.STRUCT, btf.UNION, btf.FWD) and target.name:
            self.forward.add(f"{self.word(target)} {target.name}")
            return f"{const}{self.word(target)} {target.name} {pointer}"
        if target.kind in (btf.STRUCT, btf.UNION, btf.FUNC_PROTO, btf.ENUM, btf.ENUM64) or target.name == "void":
            return f"{const}void *{name}"
        return const + self.declare(each.type_id, pointer, keep, depth)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--btf", type=pathlib.Path, default="/sys/kernel/btf/vmlinux",
                        help="raw BTF, an ELF file with .BTF, or a boot image (the running kernel's)")
    parser.add_argument("--arch", choices=sorted(ARCHITECTURES), required=True)
    parser.add_argument("--types", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent / "vmlinux/types.txt")
    parser.add_argument("--source", help="what the header says it was made from")
    parser.add_argument("output", type=pathlib.Path)
    options = parser.parse_args()
    try:
        types, image = btf.find_btf(options.btf.read_bytes())
    except (OSError, btf.BtfError) as why:
        sys.exit(f"make-vmlinux: {options.btf}: {why}")
    release = btf.kernel_release(image)
    if not release and str(options.btf).startswith("/sys/"):
        release = platform.release()
    source = options.source or f"Linux {release or 'of unknown release'}, {options.arch}"
    header = Header(types, read_list(options.types.read_text(), options.arch))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(header.text(source))


if __name__ == "__main__":
    main()
