#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-format over our C and C++, or over the files named: each with the style of its kind. -i: in place, otherwise
# only told.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=(--dry-run -Werror)
if [ "${1:-}" = -i ]; then
  mode=(-i)
  shift
fi
if [ $# -gt 0 ]; then
  files=("$@")
else
  mapfile -t files < <(git ls-files -co --exclude-standard -- '*.c' '*.cpp' '*.h' ':!vmlinux')
fi

bpf=() other=()
for file in "${files[@]}"; do
  [ -f "$file" ] || continue
  # BPF programs of the tests are in the kernel's style too.
  case $file in
    bpf/* | *.bpf.[ch]) bpf+=("$file") ;;
    *) other+=("$file") ;;
  esac
done
failed=0
[ ${#bpf[@]} -eq 0 ] || clang-format "${mode[@]}" --style=file:bpf/.clang-format "${bpf[@]}" || failed=1
[ ${#other[@]} -eq 0 ] || clang-format "${mode[@]}" --style=file:.clang-format "${other[@]}" || failed=1
exit $failed
