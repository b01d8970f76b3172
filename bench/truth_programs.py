#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs bench/truth on real programs under load, one after the other: root, Debian for redis and nginx (their packages are
unpacked into a cache, nothing is installed or left running), loopback only. usage: truth_programs.py [-s SECONDS] [NAME…]"""

import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ROOT / "bench/programs"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "spanfold/programs"
PACKAGES = ["redis-server", "redis-tools", "nginx", "libjemalloc2", "liblua5.1-0", "liblzf1", "musl-dev"]
NGINX = """daemon off; master_process off; pid pid; error_log err;
events {{ worker_connections 256; }}
http {{ access_log off; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
gzip on; gzip_min_length 10; keepalive_requests 1000000;
server {{ listen 127.0.0.1:{port}; root {folder}/html; location ~ ^/(a+)b* {{ rewrite ^/(a+)(b*)$ /index.html break; }} }} }}"""


class Missing(Exception):
    """What a program needs is not here."""


def need(*tools):
    for tool in tools:
        if shutil.which(tool) is None:
            raise Missing(f"{tool} is not installed")


def build(*command, **variables):
    need(str(command[0]))
    subprocess.run(command, check=True, env={**os.environ, **variables}, timeout=300)


def debian():
    """Debian's files, out of its packages."""
    root = CACHE / "root"
    if not (root / "usr/sbin/nginx").exists():
        need("apt-get", "dpkg-deb")
        root.mkdir(parents=True, exist_ok=True)
        if subprocess.run(["apt-get", "download", *PACKAGES], cwd=CACHE, check=False, timeout=300).returncode != 0:
            raise Missing("apt-get download fails")
        for package in CACHE.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    return root


class Program:
    """A process, and what keeps it busy. Both end with it."""

    def __init__(self, *command, **variables):
        self.command, self.variables, self.loads = command, variables, []

    def start(self, stack, folder):
        self.process = subprocess.Popen(self.command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, **self.variables}, start_new_session=True)
        stack.callback(self.end, self.process)
        time.sleep(1)
        for load in self.loads:
            load(stack)
        return self.process.pid

    @staticmethod
    def end(process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def cpp(folder, *options):
    build("g++", *options, "-o", folder / "mixed", *sorted(SOURCES.glob("mixed*.cpp")), "-pthread")
    return Program(folder / "mixed")


def go(folder, source, cgo):
    build("go", "build", "-o", folder / "program", SOURCES / source, CGO_ENABLED=cgo, GOTOOLCHAIN="local")
    return Program(folder / "program")


def java(folder, *options):
    build("javac", "-d", folder, SOURCES / "Busy.java")
    return Program("java", *options, "-cp", folder, "Busy")


def interpreter(name, source):
    need(name)
    return Program(name, SOURCES / source)


def musl(folder):
    libraries, headers = debian() / "usr/lib/x86_64-linux-musl", debian() / "usr/include/x86_64-linux-musl"
    own = subprocess.run(["gcc", "-print-file-name=include"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    build("gcc", "-O2", "-static", "-nostdlib", "-nostdinc", "-no-pie", "-isystem", headers, "-isystem", own, "-o",
          folder / "program", libraries / "crt1.o", SOURCES / "musl.c", libraries / "libc.a", "-lgcc")
    return Program(folder / "program")


def redis(folder):
    libraries = {"LD_LIBRARY_PATH": str(debian() / "usr/lib/x86_64-linux-gnu")}
    where = folder / "redis"
    program = Program(debian() / "usr/bin/redis-server", "--port", "0", "--unixsocket", where, "--save", "", "--appendonly",
                      "no", **libraries)
    client = [debian() / "usr/bin/redis-benchmark", "-s", where, "-q", "-n", "100000000"]
    script = 'for i=1,200 do redis.call("sadd", "s", i*7) end return 1'
    for words in (["-c", "20", "-r", "10000", "-t", "set,get,lpush,lrange_100,zadd,hset,mset"], ["-c", "5", "eval", script, "0"]):
        program.loads.append(lambda stack, words=words: Program(*client, *words, **libraries).start(stack, folder))
    return program


def nginx(folder):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "html").mkdir()
    (folder / "html/index.html").write_text("<p>some text of a page</p>\n" * 800)
    (folder / "nginx.conf").write_text(NGINX.format(port=port, folder=folder))
    program = Program(debian() / "usr/sbin/nginx", "-c", folder / "nginx.conf", "-p", folder)
    program.loads = [lambda stack: ask_for_ever(stack, port)] * 2
    return program


def ask_for_ever(stack, port):
    """Requests on one connection, several at once."""
    connection = socket.create_connection(("127.0.0.1", port))
    stack.callback(connection.close)
    ask = "".join(f"GET /{path} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n" for path in ("aaabb", "none", "index.html"))

    def read():
        with contextlib.suppress(OSError):
            while connection.recv(1 << 20):
                pass

    def write():
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(4 * ask.encode())

    for work in (read, write):
        threading.Thread(target=work, daemon=True).start()


PROGRAMS = {
    "C++ -O2": lambda folder: cpp(folder, "-O2"),
    "C++ -O3": lambda folder: cpp(folder, "-O3", "-fomit-frame-pointer", "-march=native"),
    "python3": lambda folder: interpreter("python3", "busy.py"),
    "python3 of Debian": lambda folder: interpreter("/usr/bin/python3", "busy.py"),
    "redis-server": redis,
    "nginx": nginx,
    "node": lambda folder: interpreter("node", "busy.js"),
    "Go": lambda folder: go(folder, "mixed.go", "0"),
    "cgo": lambda folder: go(folder, "calls.go", "1"),
    "JVM with frame pointers": lambda folder: java(folder, "-XX:+PreserveFramePointer"),
    "JVM -Xint": lambda folder: java(folder, "-Xint"),
    "JVM": java,
    "musl": musl,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-s", "--seconds", default="6")
    parser.add_argument("-f", "--freq", default="997")
    parser.add_argument("names", nargs="*", help=", ".join(PROGRAMS))
    options = parser.parse_args()
    truth = ROOT / os.environ.get("O", "build") / "bench/truth"
    for name in options.names or PROGRAMS:
        with tempfile.TemporaryDirectory(prefix="spanfold-truth-") as made, contextlib.ExitStack() as stack:
            print(f"\n{name}", flush=True)
            try:
                pid = PROGRAMS[name](pathlib.Path(made)).start(stack, made)
            except Missing as missing:
                print(f"skipped: {missing}")
                continue
            subprocess.run([truth, str(pid), options.seconds, options.freq], check=False, timeout=300)
    return 0


if __name__ == "__main__":
    sys.exit(main())
