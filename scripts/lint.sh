#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All that can be said about the code without running it. Every check runs, whatever the others said.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

for tool in clang-format clang-tidy shellcheck python3; do
  command -v "$tool" >/dev/null || {
    echo "lint: $tool is missing: run scripts/setup.sh lint" >&2
    exit 1
  }
done

failed=()
step() {
  local name=$1 started=$SECONDS
  shift
  if "$@"; then
    printf '  %-8s %-12s ok   %3d s\n' LINT "$name" $((SECONDS - started))
  else
    printf '  %-8s %-12s FAIL %3d s\n' LINT "$name" $((SECONDS - started))
    failed+=("$name")
  fi
}

shell_scripts() {
  git ls-files -co --exclude-standard | while read -r file; do
    [ -f "$file" ] || continue
    case $file in
      *.sh) echo "$file" ;;
      *.*) case $file in .ci/*) head -n 1 "$file" | grep -q '^#!.*sh$' && echo "$file" ;; esac ;;
      *) head -n 1 "$file" | grep -q '^#!.*sh$' && echo "$file" ;;
    esac
  done
}

check_shell() {
  shell_scripts | xargs -r shellcheck
}

check_python() {
  git ls-files -co --exclude-standard -- '*.py' | python3 -c '
import ast, sys
for name in sys.stdin.read().split():
    try:
        ast.parse(open(name).read(), name)
    except SyntaxError as why:
        sys.exit(f"{name}:{why.lineno}: {why.msg}")'
}

step format scripts/format.sh
step rooms python3 scripts/check-rooms.py
step house python3 scripts/check-house.py
step shell check_shell
step python check_python
step tidy python3 scripts/tidy.py --cache "${O:-build}/tidy"

[ ${#failed[@]} -eq 0 ] || {
  echo "lint: failed: ${failed[*]}" >&2
  exit 1
}
