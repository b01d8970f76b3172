#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# The first process of a machine that scripts/vm-run.sh boots: mounts the host's root under a writable layer, runs the
# command in it, says its exit status and powers off. It runs twice: from the initramfs, then inside the new root.
set -eu
here=/run/vm-run # holds the words of vm-run.sh: modules, command, out
p9=trans=virtio,version=9p2000.L,msize=512000

say() {
  echo "vm-init: $*" >/dev/console
}

# A panic is what vm-run.sh looks for, and what the end of the first process is.
fail() {
  say "$*"
  exit 1
}

mount_root() {
  mount -t proc proc /proc
  mount -t devtmpfs devtmpfs /dev
  while read -r module; do
    insmod "/modules/$module" || fail "cannot load $module"
  done <$here/modules
  mkdir -p /lower /layer /new
  # Nothing in the guest changes the host's files, so all may be cached.
  mount -t 9p -o "$p9,cache=loose,ro" root /lower || fail "cannot mount the host's root"
  mount -t tmpfs -o mode=755 tmpfs /layer
  mkdir /layer/upper /layer/work
  chmod 755 /layer/upper
  mount -t overlay -o lowerdir=/lower,upperdir=/layer/upper,workdir=/layer/work overlay /new || fail "cannot mount the overlay"
  mkdir -p /new$here
  cp -R /bin/busybox /init $here/* /new$here
  umount /proc
  mount -o move /dev /new/dev
  exec switch_root /new $here/busybox sh $here/init inside
}

mount_rest() {
  mount -t sysfs sysfs /sys
  mount -t debugfs debugfs /sys/kernel/debug
  mount -t tracefs tracefs /sys/kernel/tracing
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  mount -t bpf -o mode=700 bpf /sys/fs/bpf
  mkdir -p /dev/pts /dev/shm
  mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
  mount -t tmpfs -o mode=1777 tmpfs /dev/shm
  ln -sf /proc/self/fd /dev/fd
  for stream in 0:stdin 1:stdout 2:stderr; do ln -sf "/proc/self/fd/${stream%:*}" "/dev/${stream#*:}"; done
  ip link set lo up
  if [ -s $here/out ]; then
    out=$(cat $here/out)
    mkdir -p "$out"
    mount -t 9p -o "$p9,cache=mmap" out "$out" || fail "cannot mount the folder for results"
  fi
}

# A port opens once only, and a command may open /dev/stderr again: so the command gets pipes.
run_command() {
  until [ -e /dev/vport0p3 ]; do usleep 10000; done
  mkfifo $here/stdout $here/stderr
  cat $here/stdout >/dev/vport0p1 &
  out=$!
  cat $here/stderr >/dev/vport0p2 &
  err=$!
  read -r uptime _ </proc/uptime
  status=0
  env -i setsid /bin/bash $here/command </dev/null >$here/stdout 2>$here/stderr || status=$?
  # Processes that the command left behind may hold the pipes, so only as long as it takes to read what is in them.
  for _ in $(seq 100); do
    [ -d /proc/$out ] || [ -d /proc/$err ] || break
    usleep 20000
  done
  echo "$status $uptime" >/dev/vport0p3
}

export PATH=/bin:/sbin
if [ "${1:-}" != inside ]; then
  mount_root
else
  # Until it is mounted over, /proc is the host's, where self is QEMU.
  $here/busybox mount -t proc proc /proc
  mkdir -p $here/bin
  $here/busybox --install -s $here/bin
  PATH=$here/bin
  mount_rest
  run_command
  reboot -f
fi
