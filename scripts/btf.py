# SPDX-License-Identifier: Apache-2.0
"""Reads BTF, the kernel's type format (docs.kernel.org/bpf/btf.html), wherever a kernel carries it: a raw file,
an ELF file with a .BTF section, or a boot image. Knows nothing about what the types are for."""
import dataclasses
import re
import shutil
import struct
import subprocess
import zlib

MAGIC = b"\x9f\xeb\x01"
(INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FUNC_PROTO, VAR, DATASEC, FLOAT,
 DECL_TAG, TYPE_TAG, ENUM64) = range(1, 20)
# Bytes that follow the 12 of each type: fixed, and for each of its vlen members.
TAIL = {INT: (4, 0), ARRAY: (12, 0), STRUCT: (0, 12), UNION: (0, 12), ENUM: (0, 8), FUNC_PROTO: (0, 8), VAR: (4, 0),
        DATASEC: (0, 12), DECL_TAG: (4, 0), ENUM64: (0, 12)}


class BtfError(Exception):
    """What was read is not BTF, or not BTF as documented."""


@dataclasses.dataclass
class Member:
    name: str
    type_id: int
    offset_bits: int
    width_bits: int  # of a bit-field; 0: not one


@dataclasses.dataclass
class Type:
    kind: int
    name: str
    size: int = 0  # bytes; of INT, STRUCT, UNION, ENUM, ENUM64, FLOAT
    type_id: int = 0  # what a PTR, TYPEDEF, qualifier, tag or ARRAY refers to
    count: int = 0  # elements of an ARRAY
    signed: bool = False  # ENUM and ENUM64
    is_union: bool = False  # FWD
    members: list = dataclasses.field(default_factory=list)  # Member, or (name, value) of enums


class Btf:
    """The types of one blob; id 0 is void."""

    def __init__(self, blob):
        if blob[:3] != MAGIC or len(blob) < 24:
            raise BtfError("no BTF header")
        header_len, type_off, type_len, str_off, str_len = struct.unpack_from("<5I", blob, 4)
        if header_len < 24 or header_len + max(type_off + type_len, str_off + str_len) > len(blob):
            raise BtfError("BTF is cut short")
        self._strings = blob[header_len + str_off:header_len + str_off + str_len]
        self.types = [Type(0, "void")]
        at, end = header_len + type_off, header_len + type_off + type_len
        while at < end:
            at = self._read_type(blob, at)
        if at != end:
            raise BtfError("the last type runs over the end")
        self.by_name = {}
        for number, each in enumerate(self.types):
            self.by_name.setdefault((each.kind, each.name), []).append(number)

    def _string(self, offset):
        end = self._strings.find(b"\0", offset)
        if end < 0:
            raise BtfError(f"no string at {offset}")
        return self._strings[offset:end].decode()

    def _read_type(self, blob, at):
        name, info, size_or_type = struct.unpack_from("<3I", blob, at)
        kind, vlen, flag = info >> 24 & 0x1F, info & 0xFFFF, info >> 31
        if not 1 <= kind <= ENUM64:
            raise BtfError(f"unknown kind {kind}")
        body = at + 12
        new = Type(kind, self._string(name))
        if kind in (INT, STRUCT, UNION, ENUM, ENUM64, FLOAT, DATASEC):
            new.size = size_or_type
        else:
            new.type_id = size_or_type
        if kind == ARRAY:
            new.type_id, _, new.count = struct.unpack_from("<3I", blob, body)
        elif kind == FWD:
            new.is_union = bool(flag)
        elif kind in (STRUCT, UNION):
            for index in range(vlen):
                member, type_id, offset = struct.unpack_from("<3I", blob, body + 12 * index)
                bits, width = (offset & 0xFFFFFF, offset >> 24) if flag else (offset, 0)
                new.members.append(Member(self._string(member), type_id, bits, width))
        elif kind in (ENUM, ENUM64):
            new.signed = bool(flag)
            for index in range(vlen):
                new.members.append(self._read_enumerator(blob, body, index, kind, flag))
        self.types.append(new)
        fixed, each = TAIL.get(kind, (0, 0))
        return body + fixed + each * vlen

    def _read_enumerator(self, blob, body, index, kind, signed):
        if kind == ENUM:
            name, value = struct.unpack_from("<Ii" if signed else "<II", blob, body + 8 * index)
            return self._string(name), value
        name, low, high = struct.unpack_from("<3I", blob, body + 12 * index)
        value = high << 32 | low
        return self._string(name), value - (1 << 64) if signed and high >> 31 else value


def elf_section(data, wanted):
    if data[:6] != b"\x7fELF\x02\x01":
        return None
    table, = struct.unpack_from("<Q", data, 0x28)
    entry, count, names = struct.unpack_from("<3H", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, table + entry * index) for index in range(count)]
    for name, _, _, _, offset, size in headers:
        start = headers[names][4] + name
        if data[start:data.index(b"\0", start)] == wanted:
            return data[offset:offset + size]
    return None


def _gunzip(data):
    return zlib.decompressobj(31).decompress(data)


def _by_tool(tool):
    def decompress(data):
        if not shutil.which(tool):
            raise BtfError(f"the image is packed by {tool}, which is not installed")
        # The kernel appends the unpacked size, so these tools complain about the tail after they have written all.
        return subprocess.run([tool, "-dcq"], input=data, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              check=False).stdout
    return decompress


PACKERS = {b"\x1f\x8b\x08": _gunzip, b"\x28\xb5\x2f\xfd": _by_tool("zstd"), b"\xfd7zXZ\x00": _by_tool("xz"),
           b"\x02\x21\x4c\x18": _by_tool("lz4")}


def _payload(data):
    """What a boot image holds packed: an EFI zboot image, an x86 bzImage, or the file as a whole."""
    if data[:2] == b"MZ" and data[4:8] == b"zimg":
        offset, size = struct.unpack_from("<2I", data, 8)
        return data[offset:offset + size]
    if data[0x202:0x206] == b"HdrS":
        offset, size = struct.unpack_from("<2I", data, 0x248)
        offset += ((data[0x1F1] or 4) + 1) * 512
        return data[offset:offset + size]
    return data


def unpack_image(data):
    """The kernel inside a boot image; what is not packed, as it is. Raises BtfError where the tool is missing."""
    payload = _payload(data)
    for magic, unpack in PACKERS.items():
        if payload.startswith(magic):
            return unpack(payload)
    return data


def find_btf(data):
    """The BTF in `data`, and the decompressed image around it. Raises BtfError where there is none."""
    data = unpack_image(data)
    section = elf_section(data, b".BTF")
    if section:
        return Btf(section), data
    best = None
    for found in re.finditer(re.escape(MAGIC) + rb".\x18\x00\x00\x00\x00\x00\x00\x00", data, re.DOTALL):
        try:
            candidate = Btf(data[found.start():])
        except (BtfError, struct.error, UnicodeDecodeError):
            continue
        # A kernel may embed BTF of modules or of BPF programs too; its own is by far the largest.
        if best is None or len(candidate.types) > len(best.types):
            best = candidate
    if best is None:
        raise BtfError("no BTF found")
    return best, data


def kernel_release(image):
    """The release in an image's banner, or an empty string."""
    found = re.search(rb"Linux version (\S+) .*?(?:#\d+ )", image)
    return found.group(1).decode() if found else ""
