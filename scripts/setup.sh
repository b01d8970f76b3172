#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages that are missing to build, test and lint on Debian and Ubuntu. Silent when none is.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: scripts/setup.sh [--check] [build] [test] [lint] [vm]
  Without a group: build and test. --check only tells what is missing, and fails when something is.
TEXT
}

# Package and reason, one a line.
declare -A needed=(
  [build]='clang:compiles the BPF programs
llvm:reads and strips BPF objects
bpftool:links BPF objects and makes their skeletons
g++:compiles the loader
make:runs the build
pkg-config:finds the libraries
libbpf-dev:loads BPF programs
libelf-dev:reads symbol tables
libdw-dev:reads debug information
zlib1g-dev:packs profiles
liblzma-dev:unpacks symbols that are in the file (MiniDebugInfo)
libfmt-dev:formats text
libprotozero-dev:writes and reads protobuf
libcli11-dev:parses the command line
libiberty-dev:demangles C++ and Rust names
python3:runs the scripts'
  [test]='doctest-dev:runs the unit tests
libclang-rt-dev:is the runtime of the fuzzers
libcpp-httplib-dev:is the server of the test service
python3-venv:holds the second OTLP decoder of the tests
lld:links programs whose offsets and addresses differ
debootstrap:makes the root of another Debian that tests run programs in'
  [lint]='clang-format:checks the format
clang-tidy:checks the C++
shellcheck:checks the scripts'
  [vm]='qemu-system-x86:is the machine that other kernels run on
busybox-static:starts that machine
cpio:packs its first files
xz-utils:unpacks kernels and their modules
zstd:unpacks newer kernels'
)

check=no
groups=()
for word in "$@"; do
  case $word in
    --check) check=yes ;;
    build | test | lint | vm) groups+=("$word") ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done
[ ${#groups[@]} -gt 0 ] || groups=(build test)

wanted=()
for group in "${groups[@]}"; do
  mapfile -t -O "${#wanted[@]}" wanted <<<"${needed[$group]}"
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  missing_tools=()
  for tool in clang bpftool g++ make pkg-config python3; do
    command -v "$tool" >/dev/null || missing_tools+=("$tool")
  done
  {
    echo "setup: this is neither Debian nor Ubuntu, so nothing was installed. These are needed (Debian's names):"
    for entry in "${wanted[@]}"; do
      printf '  %-20s %s\n' "${entry%%:*}" "${entry#*:}"
    done
    echo "Not found in PATH: ${missing_tools[*]:-all tools are there, the libraries were not looked for}"
  } >&2
  exit 1
fi

# Ubuntu has no package bpftool: linux-tools-common holds a wrapper, the tool itself comes with the kernel's tools.
is_installed() {
  grep -qx "$1" <<<"$installed" && return
  case $1 in
    bpftool) bpftool version >/dev/null 2>&1 ;;
    pkg-config) grep -qx pkgconf <<<"$installed" ;;
    # Part of another package where clang is older, and of no package where clang was built.
    libclang-rt-dev) compgen -G "$(clang -print-resource-dir 2>/dev/null)/lib/linux/libclang_rt.fuzzer-*.a" >/dev/null ;;
    *) return 1 ;;
  esac
}

names=()
for entry in "${wanted[@]}"; do names+=("${entry%%:*}"); done
installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${names[@]}" pkgconf 2>/dev/null |
  awk '$2 == "installed" { print $1 }' || true)

missing=()
for entry in "${wanted[@]}"; do
  is_installed "${entry%%:*}" || missing+=("$entry")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "setup: missing packages:" >&2
packages=()
for entry in "${missing[@]}"; do
  printf '  %-20s %s\n' "${entry%%:*}" "${entry#*:}" >&2
  packages+=("${entry%%:*}")
done
[ "$check" = no ] || exit 1

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "setup: run as root, or install sudo" >&2
    exit 1
  }
  as_root=(sudo)
fi

# Each apt call says what it did only when it fails.
quietly() {
  local log
  log=$(mktemp)
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

# Not through a pipe into grep -q, which may end before apt-cache has written all: that would count as a failure.
has_candidate() {
  grep -q 'Candidate: [^(]' <<<"$(apt-cache policy "$1" 2>/dev/null)"
}

quietly apt-get update || echo "setup: apt-get update failed, trying with the lists that are there" >&2
for index in "${!packages[@]}"; do
  if [ "${packages[index]}" = bpftool ] && ! has_candidate bpftool; then
    unset 'packages[index]'
    packages+=(linux-tools-common "linux-tools-generic")
    # Built for this very kernel where there is such a package, which is what the wrapper looks for.
    ! has_candidate "linux-tools-$(uname -r)" || packages+=("linux-tools-$(uname -r)")
  elif [ "${packages[index]}" = libclang-rt-dev ] && ! has_candidate libclang-rt-dev; then
    unset 'packages[index]' # comes with clang there
  fi
done
quietly apt-get install -y --no-install-recommends "${packages[@]}" || {
  echo "setup: could not install ${packages[*]}" >&2
  exit 1
}
if ! bpftool version >/dev/null 2>&1; then
  # The wrapper refuses to run when it finds no tool for the running kernel; any bpftool can link and make skeletons.
  tool=$(find /usr/lib/linux-tools* -name bpftool -type f 2>/dev/null | sort -V | tail -n 1)
  echo "setup: bpftool does not run here${tool:+; build with: make BPFTOOL=$tool}" >&2
  exit 1
fi
echo "setup: installed ${packages[*]}" >&2
