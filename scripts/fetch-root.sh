#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a folder that holds the files of another Debian, from the mirror that this machine's own apt uses: what tests run
# programs in whose files are not the host's. No service is started, and nothing outside of the cache is touched.
# Prints the folder; everything else goes to standard error.
set -euo pipefail

usage() {
  cat >&2 <<'TEXT'
usage: scripts/fetch-root.sh [--again] SUITE PACKAGE…
  SUITE    a Debian suite: bookworm, trixie, sid, …
  PACKAGE  what it holds besides the least
  --again  makes it anew even when it is in the cache
The cache is ${XDG_CACHE_HOME:-~/.cache}/spanfold. Needs root and debootstrap; takes a minute, and gives up after five.
TEXT
  exit 2
}

fail() {
  echo "fetch-root: $*" >&2
  exit 1
}

again=no
if [ "${1:-}" = --again ]; then
  again=yes
  shift
fi
[ $# -ge 2 ] || usage
[[ $* =~ ^[a-z0-9.+\ -]+$ ]] || usage
suite=$1
shift

roots=${XDG_CACHE_HOME:-$HOME/.cache}/spanfold/roots
packages=$(IFS=,; echo "$*")
# Other packages are another root.
root=$roots/$suite-$(uname -m)-$(cksum <<<"$packages" | cut -d ' ' -f 1)
if [ "$again" = no ] && [ -d "$root" ]; then
  echo "$root"
  exit 0
fi

[ "$(id -u)" -eq 0 ] || fail "needs root: what it unpacks belongs to other users, and it mounts"
for tool in apt-get debootstrap; do
  command -v "$tool" >/dev/null || fail "$tool is missing: this works on Debian, with scripts/setup.sh test"
done
# shellcheck disable=SC2016 # these names are apt's
uri=$(apt-get indextargets --format '$(ORIGIN)|$(COMPONENT)|$(CODENAME)|$(REPO_URI)' |
  awk -F '|' '$1 == "Debian" && $2 == "main" && $3 !~ /-/ { print $4; exit }')
[ -n "$uri" ] || fail "no Debian archive among this machine's apt sources (or apt-get update never ran)"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keyring" ] || fail "$keyring is missing: install debian-archive-keyring"

mkdir -p "$roots"
new=$(mktemp -d -p "$roots" ".$suite-XXXXXX")
trap 'rm -rf --one-file-system "$new" "$new.log"' EXIT
chmod 755 "$new"
echo "fetch-root: $suite with $*" >&2
# In namespaces of its own, so that mounts and processes of the packages' scripts end with it.
timeout 300 unshare --mount --pid --fork --kill-child debootstrap --variant=minbase --keyring="$keyring" \
  --include="$packages" "$suite" "$new" "$uri" >"$new.log" 2>&1 || {
  tail -n 5 "$new.log" >&2
  fail "cannot make a root of $suite"
}
rm -rf "$new"/var/cache/apt/archives/*.deb "$new"/var/lib/apt/lists/*
# Renamed when complete, so that what is in the cache is whole; who was quicker is as good.
[ "$again" = no ] || rm -rf --one-file-system "$root"
mv -T "$new" "$root" 2>/dev/null || [ -d "$root" ] || fail "cannot move $new to $root"
echo "$root"
