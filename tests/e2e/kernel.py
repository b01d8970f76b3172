# SPDX-License-Identifier: Apache-2.0
"""The few bpf(2) calls that tests make themselves: maps of any shape, pins, entries."""

import contextlib
import ctypes
import errno
import os
import pathlib
import re
import resource
import struct
import subprocess
import time

_CALL = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
_MAP_CREATE, _MAP_LOOKUP, _MAP_UPDATE, _MAP_DELETE, _MAP_NEXT, _PROG_LOAD, _PIN, _GET = 0, 1, 2, 3, 4, 5, 6, 7
_MAP_GET_FD_BY_ID, _INFO = 14, 15
HASH, LRU_HASH = 1, 9
_PROG_BY_ID = 13
_SOCKET_FILTER = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _bpf(command, attributes):
    # As wide as the kernel's union may be; unused bytes must be zero.
    buffer = ctypes.create_string_buffer(attributes, 144)
    result = _libc.syscall(_CALL, command, buffer, len(buffer))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"bpf({command}): {os.strerror(code)}")
    return result


def create_map(kind=LRU_HASH, key=8, value=24, entries=16384, name=b"traces_ctx_v1"):
    """Gives the file descriptor of a new map."""
    # Before 5.11, maps count against this limit.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    head = struct.pack("=IIIIIII", kind, key, value, entries, 0, 0, 0)
    return _bpf(_MAP_CREATE, head + name[:15].ljust(16, b"\0"))


def load_program(name=b"", rounds=0):
    """Gives the file descriptor of a socket filter that takes no packet, after so many rounds of a thousand additions."""
    def step(code, register, value, jump=0):
        return struct.pack("=BBhi", code, register, jump, value)

    zero, leave = step(0xB7, 0, 0), step(0x95, 0, 0)
    turns = step(0xB7, 1, 0) + 1000 * step(0x07, 0, 1) + step(0x07, 1, 1) + step(0xA5, 1, rounds, -1002)
    code = zero + (turns if rounds else b"") + zero + leave
    data, text = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(b"GPL")
    head = struct.pack("=IIQQ", _SOCKET_FILTER, len(code) // 8, ctypes.addressof(data), ctypes.addressof(text))
    return _bpf(_PROG_LOAD, head.ljust(48, b"\0") + name[:15].ljust(16, b"\0"))


def pin(fd, path):
    text = ctypes.create_string_buffer(os.fsencode(path))
    _bpf(_PIN, struct.pack("=QI", ctypes.addressof(text), fd))


def open_pin(path):
    text = ctypes.create_string_buffer(os.fsencode(path))
    return _bpf(_GET, struct.pack("=QI", ctypes.addressof(text), 0))


def shape(fd):
    """(type, id, key size, value size, entries, flags) of a map."""
    info = ctypes.create_string_buffer(128)
    _bpf(_INFO, struct.pack("=IIQ", fd, 24, ctypes.addressof(info)))
    return struct.unpack_from("=IIIIII", info.raw)


def pinned_shape(path):
    fd = open_pin(path)
    try:
        return shape(fd)
    finally:
        os.close(fd)


def programs_of(pid):
    """The ids of the programs that a process holds open."""
    ids = set()
    for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            ids.update(int(number) for number in re.findall(r"^prog_id:\s*(\d+)", info.read_text(), re.MULTILINE))
    return ids


def await_recorder(pid, seconds=60):
    """Until a recorder has loaded its programs, which it does right before it records."""
    end = time.monotonic() + seconds
    while not programs_of(pid):
        if time.monotonic() > end:
            raise AssertionError(f"process {pid} loads no programs")
        time.sleep(0.02)
    time.sleep(0.2)


def is_loaded(program_id):
    try:
        os.close(_bpf(_PROG_BY_ID, struct.pack("=II", program_id, 0)))
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
        return False
    return True


class ContextMap:
    """The pinned context map, written to as a writer's system calls would."""

    def __init__(self, path):
        self._fd = open_pin(path)
        self._value_size = shape(self._fd)[3]

    def close(self):
        os.close(self._fd)

    def set(self, pid, tid, trace_id, span_id):
        self._call(_MAP_UPDATE, pid, tid, (trace_id + span_id).ljust(self._value_size, b"\0"))

    def clear(self, pid, tid):
        self._call(_MAP_DELETE, pid, tid, b"")

    def _call(self, command, pid, tid, value):
        key = ctypes.create_string_buffer(struct.pack("=II", tid, pid), 8)
        data = ctypes.create_string_buffer(value, max(len(value), 1))
        address = ctypes.addressof(data) if value else 0
        _bpf(command, struct.pack("=IIQQQ", self._fd, 0, ctypes.addressof(key), address, 0))


def maps_of(pid):
    """The maps that a process holds: {name: (file descriptor, entries, value size)}; the caller closes them."""
    found = {}
    for path in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            numbers = re.findall(r"^map_id:\s+(\d+)$", path.read_text(), re.MULTILINE)
        except OSError:
            continue
        for number in numbers:
            fd = _bpf(_MAP_GET_FD_BY_ID, struct.pack("=III", int(number), 0, 0))
            info = ctypes.create_string_buffer(128)
            _bpf(_INFO, struct.pack("=IIQ", fd, 80, ctypes.addressof(info)))
            _, _, _, value_size, entries, _ = struct.unpack_from("=IIIIII", info.raw)
            name = info.raw[24:40].split(b"\0")[0].decode()
            if name in found:
                os.close(fd)
            else:
                found[name] = (fd, entries, value_size)
    return found


def lookup(fd, number, value_size):
    """An element of an array."""
    key = ctypes.create_string_buffer(struct.pack("=I", number), 4)
    value = ctypes.create_string_buffer(value_size)
    _bpf(_MAP_LOOKUP, struct.pack("=IIQQQ", fd, 0, ctypes.addressof(key), ctypes.addressof(value), 0))
    return value.raw


def first_key(fd, size):
    """Of a hash map; None: it is empty."""
    key = ctypes.create_string_buffer(size)
    try:
        _bpf(_MAP_NEXT, struct.pack("=IIQQ", fd, 0, 0, ctypes.addressof(key)))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    return key.raw


def records_in_use(pid):
    """Of a recorder: records that threads own, tables that records own, locks that are held."""
    maps = maps_of(pid)
    try:
        fd, entries, size = maps["owners"]
        owned = sum(any(lookup(fd, bucket, size)) for bucket in range(entries))
        fd, entries, size = maps["tables"]
        taken = sum(any(lookup(fd, number, size)[:8]) for number in range(entries))
        locked = first_key(maps["locks"][0], 4) is not None if "locks" in maps else False
    finally:
        for fd, _, _ in maps.values():
            os.close(fd)
    return owned, taken, locked


def await_cpu(pid, seconds, timeout=60):
    """Waits until the children of a process have run for so long: a busy host takes its time."""
    ticks = os.sysconf("SC_CLK_TCK")
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        total = 0
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            fields = pathlib.Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        if total >= seconds * ticks:
            return
        time.sleep(0.05)
    raise AssertionError(f"the children of {pid} did not run for {seconds} s within {timeout} s")


class ProbedReturn:
    """A probe of a function's returns in a program without a load bias of its own pages, in whatever process."""

    _PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}[os.uname().machine]

    def __init__(self, program, function):
        kind = int(pathlib.Path("/sys/bus/event_source/devices/uprobe/type").read_text())
        bit = int(pathlib.Path("/sys/bus/event_source/devices/uprobe/format/retprobe").read_text().split(":")[1])
        path = ctypes.create_string_buffer(os.fsencode(program))
        # type, size, config, period, sample type, read format, flags, wake-up, breakpoint type, config 1, config 2
        attributes = struct.pack(
            "=IIQQQQQIIQQ", kind, 128, 1 << bit, 0, 0, 0, 0, 0, 0, ctypes.addressof(path), offset_of(program, function)
        )
        buffer = ctypes.create_string_buffer(attributes, 128)
        self.fds = []
        for cpu in sorted(os.sched_getaffinity(0)):
            fd = _libc.syscall(self._PERF_EVENT_OPEN, buffer, -1, cpu, -1, 8)
            if fd < 0:
                code = ctypes.get_errno()
                self.close()
                raise OSError(code, f"probe returns of {function}: {os.strerror(code)}")
            self.fds.append(fd)

    def count(self):
        return sum(struct.unpack("=Q", os.read(fd, 8))[0] for fd in self.fds)

    def close(self):
        for fd in self.fds:
            os.close(fd)


def offset_of(program, function):
    """Where a function lies in its file."""
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    address = next(int(line.split()[0], 16) for line in symbols.splitlines() if line.endswith(f" {function}"))
    headers = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout
    for words in map(str.split, headers.splitlines()):
        if words[:1] == ["LOAD"]:
            offset, start, _, size = (int(word, 16) for word in words[1:5])
            if start <= address < start + size:
                return address - start + offset
    raise AssertionError(f"{function} of {program} lies in no segment")
