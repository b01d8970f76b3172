#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fetches a Debian kernel of any suite and architecture, from the mirror that this machine's own apt uses, without
# touching the machine: apt verifies it under a private root, dpkg-deb unpacks it into the cache.
# Prints the folder that holds boot/vmlinuz-* and [usr/]lib/modules; everything else goes to standard error.
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
has_kernel() {
  compgen -G "$1/boot/vmlinuz-*" >/dev/null
}
if [ "$update" = no ] && has_kernel "$kernels/$meta"; then
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

# Since 7.x the image package is empty and depends on the packages that hold the kernel, its files and its modules.
mapfile -t packages < <(apt-cache "${settings[@]}" depends "$package" |
  awk '$1 == "Depends:" && $2 ~ /^linux-(base|binary|modules)-[0-9]/ { print $2 }')
packages=("$package" "${packages[@]}")

download=$(mktemp -d -p "$root")
trap 'rm -rf "$download"' EXIT
echo "fetch-kernel: ${packages[*]} ($arch, $suite)" >&2
(cd "$download" && apt-get "${settings[@]}" download "${packages[@]}") >&2 || fail "cannot download ${packages[*]}"
deb=$(find "$download" -name "${package}_*.deb")
folder=$kernels/$(dpkg-deb -f "$deb" Package)_$(dpkg-deb -f "$deb" Version)
if ! has_kernel "$folder"; then
  for deb in "$download"/*.deb; do dpkg-deb -x "$deb" "$download/tree"; done
  for kernel in "$download"/tree/usr/lib/modules/*/vmlinuz; do
    [ -e "$kernel" ] || continue
    version=$(basename "$(dirname "$kernel")")
    mkdir -p "$download/tree/boot"
    for file in vmlinuz System.map config; do
      ln -s "../usr/lib/modules/$version/$file" "$download/tree/boot/$file-$version"
    done
  done
  has_kernel "$download/tree" || fail "${packages[*]} hold no kernel"
  # Renamed when complete, so that what is in the cache is whole.
  rm -rf "$folder"
  mv "$download/tree" "$folder"
fi
ln -sfn "$(basename "$folder")" "$kernels/$meta"
echo "$folder"
