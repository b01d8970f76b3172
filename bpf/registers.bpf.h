/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where a walk begins: the registers of user space, as the tick found them, or as they were saved on the way into the
 * kernel. */
#ifndef SPANFOLD_REGISTERS_BPF_H
#define SPANFOLD_REGISTERS_BPF_H

#include "task.bpf.h"

#if defined(__TARGET_ARCH_x86)

/* Registers of user space that every walk needs. */
static __always_inline void take_registers(struct sf_walk *walk, const struct pt_regs *regs)
{
	walk->at.pc = regs->ip;
	walk->at.sp = regs->sp;
	walk->at.fp = regs->bp;
	walk->back = 0;
}

/* All of them, in DWARF's order. */
static __always_inline void take_all_registers(struct sf_walk *walk, const struct pt_regs *regs)
{
	walk->registers[0] = regs->ax;
	walk->registers[1] = regs->dx;
	walk->registers[2] = regs->cx;
	walk->registers[3] = regs->bx;
	walk->registers[4] = regs->si;
	walk->registers[5] = regs->di;
	walk->registers[6] = regs->bp;
	walk->registers[7] = regs->sp;
	walk->registers[8] = regs->r8;
	walk->registers[9] = regs->r9;
	walk->registers[10] = regs->r10;
	walk->registers[11] = regs->r11;
	walk->registers[12] = regs->r12;
	walk->registers[13] = regs->r13;
	walk->registers[14] = regs->r14;
	walk->registers[15] = regs->r15;
	walk->has_registers = 1;
}

/* The same, of a task that is in the kernel. */
static __always_inline bool take_saved_registers(struct sf_walk *walk, const struct pt_regs *regs)
{
	struct pt_regs copy;

	if (bpf_probe_read_kernel(&copy, sizeof(copy), regs))
		return false;
	take_registers(walk, &copy);
	take_all_registers(walk, &copy);
	/* Behind the instruction of the system call; whatever else led into the kernel stopped at one. */
	walk->back = (__s64)copy.orig_ax >= 0;
	return true;
}

#else

static __always_inline void take_all_registers(struct sf_walk *walk, const struct user_pt_regs *regs)
{
	walk->has_registers = 1; /* no compiler for arm64 asks for another one */
}

static __always_inline void take_registers(struct sf_walk *walk, const struct user_pt_regs *regs)
{
	walk->at.pc = regs->pc;
	walk->at.sp = regs->sp;
	walk->at.fp = regs->regs[29];
	walk->link = regs->regs[30];
	walk->back = 0;
}

static __always_inline bool take_saved_registers(struct sf_walk *walk, const struct pt_regs *regs)
{
	walk->at.pc = BPF_CORE_READ(regs, pc);
	walk->at.sp = BPF_CORE_READ(regs, sp);
	walk->at.fp = BPF_CORE_READ(regs, regs[29]);
	walk->link = BPF_CORE_READ(regs, regs[30]);
	walk->back = BPF_CORE_READ(regs, syscallno) >= 0;
	return true;
}

#endif

/* To where user space was left for the kernel. 0: it never was there. A function of its own for its large frame. */
VERIFIED_ONCE enter_user(__u32 entry)
{
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	const struct pt_regs *regs = user_registers(current_task());

	return work && regs && task_field(current_task(), mm) && take_saved_registers(&work->walk, regs) &&
	       !is_kernel_address(work->walk.at.pc);
}

#endif
