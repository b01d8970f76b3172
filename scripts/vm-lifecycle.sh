#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Holds the lives of 100,000 spans against their workload's log under other kernels (tests/e2e/hold_lifecycle.py), as
# they come and with preempt=full, and prints a table. usage: scripts/vm-lifecycle.sh [KERNEL…]; TESTS="…" picks some.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
rows=$work/rows
trap 'rm -rf "$work"' EXIT
[ $# -gt 0 ] || set -- 5.10 6.1 6.12
[ -n "${SPANFOLD-}" ] || make all workloads
export SPANFOLD=${SPANFOLD:-$PWD/build/spanfold} WORKLOADS=${WORKLOADS:-$PWD/build/workloads} PYTHONDONTWRITEBYTECODE=1
failed=0

# A machine that dies as it boots (125) is a fault of the emulation, seldom twice.
run() {
  local kernel=$1 words=$2 code=125
  for _ in 1 2 3; do
    [ "$code" = 125 ] || break
    code=0
    rm -rf "${work:?}/$kernel"
    # shellcheck disable=SC2016 # the guest expands it
    scripts/vm-run.sh --timeout 3000 --memory 3072 --append "$words" --out "$work/$kernel" "$kernel" -- \
      sh -c 'cd tests/e2e && exec python3 hold_lifecycle.py ${TESTS-}' 2>&1 | tee -a "$rows" || code=$?
  done
  [ "$code" = 0 ] || failed=1
  python3 tests/e2e/hold_lifecycle.py compare "$work/$kernel" 2>&1 | tee -a "$rows" || failed=1
  rm -rf "${work:?}/$kernel"
}

for kernel in "$@"; do
  echo "== $kernel"
  run "$kernel" ""
  # 5.10 was built for one kind of preemption; from 5.12 on the kernel takes it from its command line.
  [ "$kernel" = 5.10 ] || { echo "== $kernel, preempt=full" && run "$kernel" preempt=full; }
done
echo
sed -n 's/^ROW //p' "$rows" | python3 -c '
import json, sys
for line in sys.stdin:
    row = json.loads(line)
    print(" | ".join(f"{row.pop(key)}" for key in ("kernel", "preempt", "what")))
    print("   ", ", ".join(f"{key} {value}" for key, value in row.items()))'
exit "$failed"
