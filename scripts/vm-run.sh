#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command under another kernel: boots it in QEMU (emulated, so no KVM is needed) with this machine's own files as
# its root. The guest writes to a layer that is thrown away; scripts/vm-init.sh is what runs inside.
set -euo pipefail
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'TEXT'
usage: scripts/vm-run.sh [options] KERNEL [--] COMMAND…
       scripts/vm-run.sh --list
  KERNEL            a name in scripts/kernels.txt; --list prints those that can run here
  --cpus N          2
  --memory MIB      2048
  --timeout SECONDS 300, the boot included
  --append WORDS    more words for the kernel's command line: "preempt=full"
  --out DIR         what the command writes into DIR stays; in the guest DIR is $VM_OUT
  -v                shows the kernel's messages, and how long the boot took
COMMAND runs as root in the folder and environment of the caller, without standard input. Nothing it writes outlives it,
but what is in --out. Its exit status is ours, except: 2 usage, 124 out of time, 125 the machine failed.
TEXT
}

refuse() {
  echo "vm-run: $*" >&2
  usage >&2
  exit 2
}

fail() {
  echo "vm-run: $*" >&2
  exit 125
}

# name suite arch package, one kernel a line.
list_kernels() {
  awk '!/^#/ && NF { print $1, $2, $3, (NF > 3) ? $4 : "linux-image-" $3 }' "$scripts/kernels.txt"
}

check_number() {
  [[ $2 =~ ^[1-9][0-9]{0,6}$ ]] || refuse "$1 $2: not a number from 1"
}

case $(uname -m) in
  x86_64) machine=amd64 ;;
  aarch64) machine=arm64 ;;
  *) machine=$(uname -m) ;;
esac

cpus=2 memory=2048 limit=300 append="" out="" verbose=no
while [ $# -gt 0 ]; do
  case $1 in
    --cpus | --memory | --timeout | --append | --out) [ $# -ge 2 ] || refuse "$1 needs a value" ;;&
    --cpus | --memory | --timeout) check_number "$1" "$2" ;;&
    --cpus) cpus=$2 ;;
    --memory) memory=$2 ;;
    --timeout) limit=$2 ;;
    --append) append=$2 ;;
    --out) [ -n "$2" ] || refuse "--out needs a folder" ;;&
    --out) out=$2 ;;
    -v) verbose=yes && shift && continue ;;
    --list) list_kernels | awk -v machine="$machine" '$3 == machine && $3 == "amd64" { print $1 }' && exit 0 ;;
    -h | --help) usage && exit 0 ;;
    -*) refuse "no option $1" ;;
    *) break ;;
  esac
  shift 2
done
[ $# -gt 0 ] || refuse "no kernel given"
name=$1 && shift
[ "${1:-}" != -- ] || shift
[ $# -gt 0 ] || refuse "no command given"
read -r _ suite arch package < <(list_kernels | awk -v name="$name" '$1 "" == name ""') ||
  refuse "no kernel $name; there are $(list_kernels | awk '{ print $1 }' | paste -sd ' ')"

# The guest runs the host's files, so it has the host's architecture.
[ "$arch" = amd64 ] || fail "$name: $arch is not run yet: vm-run starts x86-64 machines only"
[ "$arch" = "$machine" ] || fail "$name is for $arch, and the files that it would run are this machine's ($machine)"
for tool in qemu-system-x86_64 busybox cpio xz python3; do
  command -v "$tool" >/dev/null || fail "$tool is missing: run scripts/setup.sh vm"
done
! ldd "$(command -v busybox)" >/dev/null 2>&1 || fail "busybox is not the static one: run scripts/setup.sh vm"

tree=$("$scripts/fetch-kernel.sh" "$suite" "$arch" "$package") || fail "no kernel $name"
for kernel in "$tree"/boot/vmlinuz-*; do version=${kernel##*/vmlinuz-}; done
[[ $version == "${name%%-*}"[.-]* ]] || fail "suite $suite holds $version now: correct $name in scripts/kernels.txt"
modules=$(compgen -G "$tree/lib/modules/$version" || compgen -G "$tree/usr/lib/modules/$version") ||
  fail "$tree holds no modules of $version"

# Unpacked once, here: QEMU starts the bare kernel (PVH), and the guest need not unpack it, half of the time of a boot.
# Its addresses are not random then, which takes the unpacker. Where it cannot be, the guest does it.
image=$tree/boot/vmlinux-$version
if [ ! -e "$image" ]; then
  if python3 -B -c 'import sys; sys.path.insert(0, sys.argv[1]); import btf
image = btf.unpack_image(open(sys.argv[2], "rb").read())
sys.exit(image[:4] != b"\x7fELF" or sys.stdout.buffer.write(image) != len(image))' \
    "$scripts" "$kernel" >"$image.$$" 2>/dev/null; then
    mv "$image.$$" "$image"
  else
    rm -f "$image.$$"
    echo "vm-run: cannot unpack $version here, so its boot takes longer" >&2
  fi
fi
[ ! -e "$image" ] || kernel=$image

work=$(mktemp -d)
qemu=""
# shellcheck disable=SC2317 # it is reached by the trap
clean() {
  [ -z "$qemu" ] || kill "$qemu" 2>/dev/null || true
  rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Copies a module and, before it, those that it depends on; what is built in needs none.
declare -A seen=()
add_module() {
  local file dependencies each
  [ -z "${seen[$1]:-}" ] || return 0
  seen[$1]=yes
  file=$(awk -v "name=$1" -F / '{ each = $NF; sub(/\.ko.*/, "", each); gsub("-", "_", each) } each == name' "$work/files")
  if [ -z "$file" ]; then
    grep -q "/${1//_/[_-]}\.ko" "$modules/modules.builtin" || fail "$version has no module $1 (a kernel for clouds?)"
    return 0
  fi
  case $file in
    *.xz) xz -dc "$file" >"$work/root/modules/$1.ko" ;;
    *.ko) cp "$file" "$work/root/modules/$1.ko" ;;
    *) fail "cannot unpack $file" ;;
  esac
  dependencies=$(tr '\0' '\n' <"$work/root/modules/$1.ko" | sed -n 's/^depends=//p' | tr ',-' ' _')
  for each in $dependencies; do add_module "$each"; done
  echo "$1.ko" >>"$work/root/run/vm-run/modules"
}

mkdir -p "$work"/root/{bin,dev,proc,modules,run/vm-run}
find "$modules" -name '*.ko*' >"$work/files"
for each in virtio_pci virtio_console 9pnet_virtio 9p overlay; do add_module "$each"; done
cp "$(command -v busybox)" "$work/root/bin/busybox"
for each in sh cat cp insmod mkdir mount umount switch_root; do ln -s busybox "$work/root/bin/$each"; done
install -m 755 "$scripts/vm-init.sh" "$work/root/init"
shares=(-virtfs "local,path=/,mount_tag=root,security_model=none,multidevs=remap,readonly=on")
if [ -n "$out" ]; then
  mkdir -p "$out" || fail "cannot make $out"
  out=$(cd "$out" && pwd)
  echo "$out" >"$work/root/run/vm-run/out"
  shares+=(-virtfs "local,path=${out//,/,,},mount_tag=out,security_model=none,multidevs=remap")
fi
{
  # All of the caller's environment.
  declare -px
  echo "cd $(printf %q "$PWD") || exit 125"
  [ -z "$out" ] || echo "export VM_OUT=$(printf %q "$out")"
  printf '%q ' exec "$@"
} >"$work/root/run/vm-run/command"
(cd "$work/root" && find . | cpio --quiet -o -H newc -R 0:0) >"$work/initramfs"

# The clock words: emulated clocks run as they should, but not so evenly that the kernel's checks always pass.
words="console=ttyS0 panic=-1 oops=panic tsc=reliable no_timer_check random.trust_cpu=on"
console=null
if [ "$verbose" = yes ]; then
  console=file,path=/dev/fd/4
else
  words+=" quiet"
fi
began=$SECONDS started=$EPOCHREALTIME
# QEMU opens the streams by path, which pipes allow whatever ours are.
exec 3> >(exec cat) && cats=$!
exec 4> >(exec cat >&2) && cats+=" $!"
timeout --foreground --kill-after=5 "$limit" qemu-system-x86_64 \
  -accel tcg -machine pc -cpu max,la57=off -smp "$cpus" -m "$memory" -nodefaults -no-user-config -display none -no-reboot \
  -kernel "$kernel" -initrd "$work/initramfs" -append "$words $append" \
  -chardev "$console,id=console,logfile=$work/console" -serial chardev:console \
  -device virtio-serial-pci \
  -chardev file,id=stdout,path=/dev/fd/3 -device virtserialport,nr=1,chardev=stdout \
  -chardev file,id=stderr,path=/dev/fd/4 -device virtserialport,nr=2,chardev=stderr \
  -chardev "file,id=status,path=$work/status" -device virtserialport,nr=3,chardev=status \
  "${shares[@]}" </dev/null >&4 2>&4 &
qemu=$!
code=0
wait "$qemu" || code=$?
qemu=""
exec 3>&- 4>&-
# shellcheck disable=SC2086 # two numbers
wait $cats || true

if [ -s "$work/status" ]; then
  read -r status uptime <"$work/status"
  if [ "$verbose" = yes ]; then
    awk -v "from=$started" -v "to=$EPOCHREALTIME" -v "uptime=$uptime" -v "version=$version" 'BEGIN {
      printf "vm-run: %s, %.1f s in all; the command began %.1f s after the kernel\n", version, to - from, uptime
    }' >&2
  fi
  exit "$status"
fi
[ "$verbose" = yes ] || [ ! -s "$work/console" ] || tail -n 40 "$work/console" >&2
if [ $((SECONDS - began)) -ge "$limit" ]; then
  echo "vm-run: $version: still running after $limit s, stopped" >&2
  exit 124
fi
! grep -aq 'Kernel panic' "$work/console" || fail "$version panicked, see above"
fail "$version ended (QEMU: $code) before the command did"
