#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Records a real service for some seconds and shows where its spans spent CPU time. Builds what is missing, needs root
# (or sudo) to record, and leaves nothing behind but build/demo. SECONDS_TO_RECORD, FREQ and RATE change the run.
set -euo pipefail
cd "$(dirname "$0")/.."

make=${MAKE:-make}
build=${O:-build}
seconds=${SECONDS_TO_RECORD:-8}
freq=${FREQ:-999}
rate=${RATE:-60}
out=$build/demo
work=$build/workloads
pids=()
scratch=

fail() {
  echo "demo: $*" >&2
  exit 1
}

build_all() {
  local jobs=
  case " ${MAKEFLAGS-} " in
  *' -j'*) ;; # the caller's job server decides
  *) jobs=-j$(nproc) ;;
  esac
  scripts/setup.sh
  $make ${jobs:+"$jobs"} O="$build" all workloads
}

# Ends only what this script started, in the reverse order, and takes its mount away.
clean_up() {
  local i
  trap - INT TERM
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    kill -TERM "${pids[i]}" 2>/dev/null || true
    wait "${pids[i]}" 2>/dev/null || true
  done
  if [ -n "$scratch" ]; then
    if mountpoint -q "$scratch/bpf"; then umount "$scratch/bpf"; fi
    rm -rf "$scratch"
  fi
}

# Starts a command in the background, its standard output in a file, and waits for the line that says it is up.
start() {
  local file=$1 line=$2 tries=0
  shift 2
  # The background job makes its own, and grep may be there first.
  : >"$file"
  "$@" >"$file" &
  pids+=($!)
  until grep -q "^$line" "$file"; do
    kill -0 "${pids[-1]}" 2>/dev/null || fail "$1 ended before it was up"
    [ $((tries += 1)) -le 100 ] || fail "$1 is not up after 10 s"
    sleep 0.1
  done
}

show() {
  echo
  echo "\$ $*"
  "$@"
}

record() {
  local map port
  scratch=$(mktemp -d)
  trap clean_up EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  # A BPF file system of its own: whatever the host's one holds is not touched.
  mkdir -p "$scratch/bpf" "$out"
  mount -t bpf bpf "$scratch/bpf" || fail "cannot mount a BPF file system (in a container, run it privileged)"
  map=$scratch/bpf/otel/traces_ctx_v1

  start "$scratch/writer" ready "$work/writer" --binary "$work/service" --ctx-map "$map"
  start "$scratch/service" listening "$work/service" --traces "$out/traces.jsonl" --truth "$out/truth.jsonl"
  port=$(awk '{ print $2 }' "$scratch/service")
  "$work/load" --port "$port" --rate "$rate" --seconds "$seconds" >"$scratch/load" &
  pids+=($!)

  show "$build/spanfold" record --freq "$freq" --duration "$seconds" --ctx-map "$map" --output "$out/spanfold.otlp"
  wait "${pids[-1]}"
  unset 'pids[-1]' # its number may be somebody else's by now
  echo "load: $(cat "$scratch/load")"
  show "$build/spanfold" report --by span --top 4 "$out/spanfold.otlp"
  show "$build/spanfold" report --by function --top 12 "$out/spanfold.otlp"
  cat <<END

profile  $out/spanfold.otlp (OTLP ProfilesData)
traces   $out/traces.jsonl (the service's own spans)
truth    $out/truth.jsonl (CPU time of each function in each span, as the service measured it)
END
}

if [ "${1-}" != --built ]; then
  build_all
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "recording needs root: run it as root, or install sudo"
    echo "demo: recording needs root, so the rest runs under sudo"
    exec sudo O="$build" SECONDS_TO_RECORD="$seconds" FREQ="$freq" RATE="$rate" "$0" --built
  fi
fi
record
