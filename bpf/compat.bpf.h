/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The one place for kernel includes and for what differs between kernels. */
#ifndef SPANFOLD_COMPAT_BPF_H
#define SPANFOLD_COMPAT_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "abi.h"

/*
 * SPANFOLD_NO_FETCH: the second set of programs, for kernels without BPF atomics that return a value (before 5.12;
 * arm64 before 5.18). A branch on a knob would not do: such an atomic fails to load in dead code, too.
 */
#ifdef SPANFOLD_NO_FETCH

static __always_inline struct task_struct *current_task(void)
{
	return (struct task_struct *)bpf_get_current_task();
}
#define task_field(task, ...) BPF_CORE_READ(task, __VA_ARGS__)

#else

/* With its BTF type (5.11), so that fields are plain loads, at half the price of probe reads. */
static __always_inline struct task_struct *current_task(void)
{
	return bpf_get_current_task_btf();
}
#define SF_FIELD_1(task, a) ((task)->a)
#define SF_FIELD_2(task, a, b) ((task)->a->b)
#define SF_FIELD_OF(_1, _2, name, ...) name
#define task_field(task, ...) SF_FIELD_OF(__VA_ARGS__, SF_FIELD_2, SF_FIELD_1)(task, __VA_ARGS__)

#endif

/* An element of a BPF hash map, as far as we look into it; the kernel keeps the type to itself. */
struct bpf_lru_node___spanfold {
	struct list_head list;
} __attribute__((preserve_access_index));
struct htab_elem___spanfold {
	struct bpf_lru_node___spanfold lru_node;
	char key[8];
} __attribute__((preserve_access_index));

/* The key of the element that this node of an LRU list is in. */
static __always_inline const void *key_of_node(const void *node)
{
	return node - bpf_core_field_offset(struct htab_elem___spanfold, lru_node) +
	       bpf_core_field_offset(struct htab_elem___spanfold, key);
}

/*
 * A function that the verifier checks once, on its own, and not at each call: what keeps verification short. Arguments
 * are numbers only (5.10 takes no pointers), state is handed over in maps. Weak, because each object brings a copy.
 */
#define VERIFIED_ONCE __weak __attribute__((noinline)) int

/* The clock of all stamps. Tests put another in its place, which their steps move. */
#ifndef now_boot_ns
#define now_boot_ns() bpf_ktime_get_boot_ns()
#endif

/* Helper 175 (5.15). */
enum bpf_func_id___spanfold {
	BPF_FUNC_task_pt_regs___spanfold = 175,
};
static __always_inline bool has_task_pt_regs(void)
{
	return bpf_core_enum_value_exists(enum bpf_func_id___spanfold, BPF_FUNC_task_pt_regs___spanfold);
}

/* THREAD_SIZE of x86-64 and of arm64 with pages of 4 KiB. */
#define KERNEL_STACK_BYTES 16384

/* What the kernel keeps of functions whose return address it has replaced (kernel/events/uprobes.c), innermost first.
 */
struct return_instance___spanfold {
	unsigned long stack; /* where the return address was */
	unsigned long orig_ret_vaddr;
	struct return_instance___spanfold *next;
} __attribute__((preserve_access_index));
struct uprobe_task___spanfold {
	struct return_instance___spanfold *return_instances;
} __attribute__((preserve_access_index));
struct task_struct___spanfold {
	struct uprobe_task___spanfold *utask;
} __attribute__((preserve_access_index));

/* Kernel text lies in the upper half of the address space on x86-64 and arm64 alike. */
static __always_inline bool is_kernel_address(__u64 address)
{
	return (__s64)address < 0;
}

#endif
