# SPDX-License-Identifier: Apache-2.0
"""What the tools that know say of addresses: nm, addr2line and objdump, `go tool nm`, perf maps. Nothing of it is
spanfold's: all is read anew, and plainly."""

import bisect
import collections
import os
import pathlib
import re
import subprocess

_NM = re.compile(r"^([0-9a-f]+)(?: ([0-9a-f]+))? ([A-Za-z]) (.+)$", re.MULTILINE)
_GO = re.compile(r"^ *([0-9a-f]+) +(\d+) ([Tt]) (.+)$", re.MULTILINE)
_STUB = re.compile(r"^([0-9a-f]+) <(.+@plt)>:$", re.MULTILINE)
_JUMP = re.compile(r"^ *([0-9a-f]+):.*\bjmp +\*.*# ([0-9a-f]+) <", re.MULTILINE)
_IRELATIVE = re.compile(r"^([0-9a-f]+) +\S+ +R_\w+_IRELATIVE +([0-9a-f]+)$", re.MULTILINE)
_PERF_MAP = re.compile(r"^(?:0x)?([0-9a-f]+) (?:0x)?([0-9a-f]+) (.+)$", re.MULTILINE)
_LONG_STRING = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"
# What Go's linker puts behind a name in .symtab, and its line table does not hold.
_GO_CONVENTION = re.compile(r"\.abi(?:0|internal)$")
CUT = "…"


def output_of(*command, may_fail=False):
    done = subprocess.run([str(word) for word in command], capture_output=True, check=not may_fail, timeout=120)
    return done.stdout.decode(errors="surrogateescape")


def shown(name):
    """As spanfold shows it."""
    return name.replace(_LONG_STRING, "std::string")


class Symbols:
    """Functions by address."""

    def __init__(self, symbols):
        """Of (start, bytes, name); 0 bytes: it gives no size."""
        self.names = collections.defaultdict(set)  # by start and bytes
        for start, size, name in symbols:
            self.names[start, size].add(name)
        self.keys = sorted(self.names)
        self.longest = max((size for _, size in self.keys), default=0)

    def covering(self, address):
        """Names of the sized symbols that begin last of those that cover the address; the bytes are theirs."""
        at, found, start = bisect.bisect_right(self.keys, (address, 1 << 64)), set(), None
        while at > 0 and self.keys[at - 1][0] > address - self.longest:
            at -= 1
            begin, size = self.keys[at]
            if start is not None and begin != start:
                break
            if address < begin + size:
                start = begin
                found |= self.names[begin, size]
        return found

    def before(self, address):
        """Names of those without a size, where the nearest symbol before the address is such a one."""
        at = bisect.bisect_right(self.keys, (address, 1 << 64))
        start = self.keys[at - 1][0] if at else None
        return self.names.get((start, 0), set())

    def why_not(self, address, name):
        """What is wrong with a name (empty: none), or nothing. A symbol with a size counts before one without."""
        allowed = self.covering(address)
        if name and not allowed:
            allowed = self.before(address)
        if name in allowed or (not name and not allowed):
            return None
        if name.endswith(CUT) and any(each.startswith(name[: -len(CUT)]) for each in allowed):
            return None
        return f"{address:#x} is {name or 'not named'}, not one of {sorted(allowed)}"


class Elf:
    """An ELF file as binutils see it."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self._stubs = None
        own = list(self._functions("--defined-only"))
        if own:
            self.symbols = Symbols(own)
        else:
            debug = self._debug_file()
            more = self._functions("--defined-only", path=debug) if debug else []
            self.symbols = Symbols([*self._functions("--defined-only", "-D", "--without-symbol-versions"), *more])

    def _functions(self, *options, path=None):
        text = output_of("nm", "-C", "-S", *options, path or self.path, may_fail=True)
        for start, size, kind, name in _NM.findall(text):
            if kind in "tTwWi":
                yield int(start, 16), int(size or "0", 16), shown(name)

    def _debug_file(self):
        match = re.search(r"Build ID: ([0-9a-f]{4,})", output_of("readelf", "-n", self.path))
        path = match and pathlib.Path(f"/usr/lib/debug/.build-id/{match[1][:2]}/{match[1][2:]}.debug")
        return path if path and path.exists() else None

    def _read_stubs(self):
        """Stubs that call other files, as objdump names them; those that it has no name for, by the slot that they jump
        through and by who fills it: an IFUNC."""
        sections = [word for name in (".plt", ".plt.sec", ".plt.got", ".iplt") for word in ("-j", name)]
        text = output_of("objdump", "-C", "-d", *sections, self.path, may_fail=True)
        stubs = {int(start, 16): {shown(name)} for start, name in _STUB.findall(text) if not name.startswith("*ABS*")}
        chosen = dict(_IRELATIVE.findall(output_of("readelf", "-rW", self.path)))
        for start, slot in _JUMP.findall(text):
            resolver = int(chosen.get(slot.rjust(16, "0"), "0"), 16)
            if resolver:
                stubs[int(start, 16)] = {f"{name}@plt" for name in self.symbols.covering(resolver)}
        return sorted(stubs.items())

    def _stubs_at(self, address):
        if self._stubs is None:
            self._stubs = self._read_stubs()
        near = [names for start, names in self._stubs if start <= address < start + 16]
        return near[-1] if near else set()

    def why_not(self, address, name):
        if name.endswith("@plt") and not self.symbols.covering(address):
            known = self._stubs_at(address)
            return None if name in known else f"{address:#x} is {name}, none of the stubs {sorted(known)}"
        return self.symbols.why_not(address, name)


class Go:
    """A Go program, by the symbols of its twin that is not stripped."""

    def __init__(self, twin):
        text = output_of("go", "tool", "nm", "-size", twin)
        self.symbols = Symbols((int(start, 16), int(size), self.plain(name)) for start, size, _, name in _GO.findall(text))

    @staticmethod
    def plain(name):
        return _GO_CONVENTION.sub("", name.replace("·", ".").replace("∕", "/"))

    def why_not(self, address, name):
        return self.symbols.why_not(address, self.plain(name))


class PerfMap:
    """What a process wrote of the code that it made, by a line that covers the address."""

    _FUNCTION = re.compile(r"^(?:JS|LazyCompile|Function|Script|Eval):[*~^+-]? *")

    def __init__(self, text):
        lines = ((int(start, 16), int(size, 16), name) for start, size, name in _PERF_MAP.findall(text))
        self.lines = sorted((start, start + size, self.plain(name)) for start, size, name in lines)
        self.longest = max((end - start for start, end, _ in self.lines), default=0)

    @classmethod
    def plain(cls, name):
        return cls._FUNCTION.sub("", name.removeprefix("py::")) or name

    def why_not(self, address, name):
        """Several lines may cover it: which was valid when is not told by the file. Nor is when a line was written, so
        an address without a name is none that is wrong."""
        if not name:
            return None
        at, allowed = bisect.bisect_right(self.lines, (address, 1 << 64, "")), set()
        while at > 0 and self.lines[at - 1][0] >= address - self.longest:
            at -= 1
            if address < self.lines[at][1]:
                allowed.add(self.lines[at][2])
        return None if name in allowed else f"{address:#x} is {name}, not one of {sorted(allowed)}"


def lines_of_addr2line(path, addresses):
    """Address to the name that addr2line gives."""
    words = [f"{address:#x}" for address in addresses]
    answer = output_of("addr2line", "-C", "-f", "-e", path, *words).splitlines()
    return {address: shown(name) for address, name in zip(addresses, answer[::2])}


class Checker:
    """Compares frames with the truth about their files."""

    def __init__(self, root="/"):
        self.root = pathlib.Path(root)
        self.known = {}  # by file name, as frames have it
        self.compared = collections.Counter()

    def tell(self, file, truth):
        self.known[str(file)] = truth

    def _truth_of(self, file):
        if file not in self.known and file.startswith("/"):
            path = pathlib.Path(os.path.normpath(f"{self.root}/{file}"))
            if not path.is_file() or self.root not in (path, *path.parents):
                path = pathlib.Path(file)
            self.known[file] = Elf(path)
        return self.known.get(file)

    def check(self, frames):
        """All names of frames in files equal the truth, and none is missing. Counts them by file."""
        wrong = []
        for frame in sorted(frames):
            truth = self._truth_of(frame.file)
            if truth is None:
                continue
            self.compared[frame.file] += 1
            why = truth.why_not(frame.address, frame.name)
            if why:
                wrong.append(f"{frame.file}: {why}")
        if wrong:
            raise AssertionError(f"{len(wrong)} of {self.compared.total()} frames are wrong:\n" + "\n".join(wrong[:20]))

    def __str__(self):
        files = ", ".join(f"{os.path.basename(file) or file} {count}" for file, count in sorted(self.compared.items()))
        return f"{self.compared.total()} frames, all equal ({files})"
