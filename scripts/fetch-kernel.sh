#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fetches a Debian kernel of any suite and architecture, from the mirror that this machine's own apt uses, without
# touching the machine: apt verifies it under a private root, dpkg-deb unpacks it into the cache.
# Prints the folder that holds boot/vmlinuz-* and modules; everything else goes to standard error.
set -euo pipefail

usage() {
  cat >&2 <<'TEXT'
usage: scripts/fetch-kernel.sh [--update] SUITE ARCH [PACKAGE]
  SUITE    a Debian suite: bullseye, bookworm, trixie, sid, …
  ARCH     amd64 or arm64
  PACKAGE  the meta package (linux-image-ARCH)
  --update asks the mirror again even when the cache has a kernel
The cache is ${XDG_CACHE_HOME:-~/.cache}/spanfold.
TEXT
  exit 2
}

fail() {
  echo "fetch-kernel: $*" >&2
  exit 1
}

update=no
if [ "${1:-}" = --update ]; then
  update=yes
  shift
fi
if [ $# -lt 2 ] || [ $# -gt 3 ]; then usage; fi
suite=$1 arch=$2 meta=${3:-linux-image-$2}
[[ $suite$arch$meta =~ ^[a-z0-9.+-]+$ ]] || usage

cache=${XDG_CACHE_HOME:-$HOME/.cache}/spanfold
kernels=$cache/kernels/$suite-$arch
if [ "$update" = no ] && [ -e "$kernels/$meta" ]; then
  readlink -f "$kernels/$meta"
  exit 0
fi

for tool in apt-get apt-cache dpkg-deb; do
  command -v "$tool" >/dev/null || fail "$tool is missing: this works on Debian and Ubuntu only"
done

# shellcheck disable=SC2016 # these names are apt's
uri=$(apt-get indextargets --format '$(ORIGIN)|$(COMPONENT)|$(CODENAME)|$(REPO_URI)' |
  awk -F '|' '$1 == "Debian" && $2 == "main" && $3 !~ /-/ { print $4; exit }')
[ -n "$uri" ] || fail "no Debian archive among this machine's apt sources (or apt-get update never ran)"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keyring" ] || fail "$keyring is missing: install debian-archive-keyring"

root=$cache/apt/$suite-$arch
mkdir -p "$root/lists/partial" "$root/archives/partial" "$kernels"
: >"$root/status"
echo "deb [arch=$arch signed-by=$keyring] $uri $suite main" >"$root/sources.list"

settings=(-qq
  -o "Dir::State=$root" -o "Dir::State::lists=$root/lists" -o "Dir::State::status=$root/status"
  -o "Dir::Cache=$root" -o "Dir::Etc::sourcelist=$root/sources.list" -o Dir::Etc::sourceparts=-
  -o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o Acquire::Languages=none)
# Without this apt warns that its download user cannot enter a root user's cache.
[ "$(id -u)" -ne 0 ] || settings+=(-o APT::Sandbox::User=root)

apt-get "${settings[@]}" update >&2 || fail "cannot read suite $suite"
package=$(apt-cache "${settings[@]}" depends "$meta" | awk '$1 == "Depends:" && $2 ~ /^linux-image-/ { print $2; exit }')
[ -n "$package" ] || fail "suite $suite has no $meta for $arch"

download=$(mktemp -d -p "$root")
trap 'rm -rf "$download"' EXIT
echo "fetch-kernel: $package ($arch, $suite)" >&2
(cd "$download" && apt-get "${settings[@]}" download "$package") >&2 || fail "cannot download $package"
deb=$(find "$download" -name '*.deb')
folder=$kernels/$(dpkg-deb -f "$deb" Package)_$(dpkg-deb -f "$deb" Version)
if [ ! -d "$folder" ]; then
  dpkg-deb -x "$deb" "$download/tree"
  # Renamed when complete, so that what is in the cache is whole.
  mv "$download/tree" "$folder"
fi
ln -sfn "$(basename "$folder")" "$kernels/$meta"
echo "$folder"
