/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The one place for kernel includes and for what differs between kernels. */
#ifndef SPANFOLD_COMPAT_BPF_H
#define SPANFOLD_COMPAT_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "abi.h"

/* The running task with its BTF type: fields are plain loads, where bpf_get_current_task() needs a probe read
 * each. 5.11. */
static __always_inline struct task_struct *current_task(void)
{
	return bpf_get_current_task_btf();
}

/*
 * A function that the verifier checks once, on its own, and not at each call: what keeps verification short. Arguments
 * are numbers only (5.10 takes no pointers), state is handed over in maps. Weak, because each object brings a copy.
 */
#define VERIFIED_ONCE __weak __attribute__((noinline)) int

/* Kernel text lies in the upper half of the address space on x86-64 and arm64 alike. */
static __always_inline bool is_kernel_address(__u64 address)
{
	return (__s64)address < 0;
}

#endif
