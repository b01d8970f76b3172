/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From a frame to its caller, by a rule. What is not known ends the walk: no caller is guessed. */
#ifndef SPANFOLD_STEP_BPF_H
#define SPANFOLD_STEP_BPF_H

#include "rules.bpf.h"
#include "task.bpf.h"

/* How often a walk may go to another stack: signal handlers, coroutines, Go's runtime. */
#define STACK_SWITCHES 4
/* The rule of the innermost frame wants a register that was not taken. */
#define END_REGISTERS SF_END_COUNT

/* Fills the walk's window from `address` on, as far as the stack is there. 0: it is not. */
VERIFIED_ONCE fill_window(__u32 entry, __u64 address)
{
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	__u32 left = 4096 - ((__u32)address & 4095);
	struct sf_walk *walk;

	if (!work)
		return 0;
	walk = &work->walk;
	walk->window_at = address;
	walk->window_bytes = SF_WINDOW_BYTES;
	if (!bpf_probe_read_user(walk->window, SF_WINDOW_BYTES, (void *)address))
		return 1;
	walk->window_bytes = 0;
	/* The stack may end with this page. */
	if (left >= SF_WINDOW_BYTES || bpf_probe_read_user(walk->window, left, (void *)address))
		return 0;
	walk->window_bytes = left;
	return 1;
}

/* A word of the stack; they are aligned. */
static __always_inline bool read_word(struct sf_walk *walk, __u32 entry, __u64 address, __u64 *value)
{
	__u64 at = address - walk->window_at;

	if (address & 7)
		return false;
	if (at >= walk->window_bytes) {
		if (!fill_window(entry, address))
			return false;
		at = 0;
	}
	*value = walk->window[(at / sizeof(*value)) & (SF_WINDOW_WORDS - 1)];
	return true;
}

/* More than may be nested (MAX_URETPROBE_DEPTH). */
#define MOST_PROBED_RETURNS 65

/*
 * The frame at hand was to return to the kernel's own code, so that its return can be probed: the address that stood
 * there before takes its place. 0: it is not to be found.
 */
VERIFIED_ONCE find_probed_return(__u32 entry)
{
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	struct task_struct___spanfold *task = (void *)current_task();
	struct return_instance___spanfold *instance;
	__u64 trampoline;
	__u32 i;

	if (!work || !bpf_core_field_exists(task->utask))
		return 0;
	trampoline = work->walk.at.pc;
	instance = BPF_CORE_READ(task, utask, return_instances);
	for (i = 0; i < MOST_PROBED_RETURNS && instance; i++) {
		/* Of probes on one and the same return, the last one has the address of a caller. */
		if (BPF_CORE_READ(instance, stack) == work->walk.at.sp - sizeof(__u64)) {
			work->walk.at.pc = BPF_CORE_READ(instance, orig_ret_vaddr);
			if (work->walk.at.pc != trampoline)
				return 1;
		}
		instance = BPF_CORE_READ(instance, next);
	}
	return 0;
}

/*
 * The innermost frame of code with frame pointers may have none yet, or none any more: the instruction tells (x86-64:
 * push %rbp, mov %rsp,%rbp behind it, ret; endbr64 before them).
 */
static __always_inline bool is_frameless_leaf(const struct sf_walk *walk, __u64 *cfa, bool *saved)
{
#if defined(__TARGET_ARCH_x86)
	__u64 code = 0;

	*saved = false;
	if (bpf_probe_read_user(&code, sizeof(code), (void *)walk->at.pc))
		return false;
	if ((code & 0xffffffff) == 0xfa1e0ff3) /* endbr64 */
		code >>= 32;
	*cfa = walk->at.sp + 8;
	if ((code & 0xff) == 0x55 || (code & 0xff) == 0xc3 || (code & 0xff) == 0xc2)
		return true;
	if ((code & 0xff00ffffff) == 0xc300c48348) { /* add $N,%rsp; ret */
		*cfa += (code >> 24) & 0x78;
		return true;
	}
	*saved = (code & 0xffffff) == 0xe58948 || (code & 0xffffff) == 0xec8b48;
	if (*saved)
		*cfa += 8;
	return *saved;
#else
	return false;
#endif
}

/* A signal handler's caller is whoever it interrupted: all registers are in memory. */
static __always_inline enum sf_end leave_signal(struct sf_walk *walk, __u32 entry, const struct sf_rule *rule)
{
	struct sf_registers from = {};
	__u64 sp = walk->at.sp;

	if (!read_word(walk, entry, sp + (__s64)rule->slot, &from.fp) ||
	    !read_word(walk, entry, sp + (__s64)rule->offset, &from.sp) ||
	    !read_word(walk, entry, sp + (__s64)rule->ra_offset, &from.pc))
		return SF_END_FAULT;
	/* Up the stack is where it should lie; elsewhere if the handler has a stack of its own. */
	if (from.sp <= sp && ++walk->switches > STACK_SWITCHES)
		return SF_END_BAD_CFA;
	walk->at = from;
	walk->back = 0;
	return SF_END_NO_USER;
}

/* On to the caller, whose frame begins at `cfa`. */
static __always_inline enum sf_end enter_caller(struct sf_walk *walk, __u32 entry, const struct sf_rule *rule,
						__u64 cfa)
{
	__u64 pc = walk->link, fp = walk->at.fp, saved_at = sf_saved_fp_of(rule, &walk->at, cfa);

	/* Before the return address, which lies above it: so the window moves once at the most. */
	if (saved_at && !read_word(walk, entry, saved_at, &fp))
		return SF_END_FAULT;
	if (rule->ra == SF_RETURN_AT_CFA && !read_word(walk, entry, cfa + (__s64)rule->ra_offset, &pc))
		return SF_END_FAULT;
	if (!pc)
		return SF_END_ZERO;
	walk->at.pc = pc;
	walk->at.sp = cfa;
	walk->at.fp = rule->fp == SF_FP_UNDEFINED ? 0 : fp;
	walk->back = 1;
	return SF_END_NO_USER;
}

/* The innermost frame of code with frame pointers; enum sf_end. */
VERIFIED_ONCE step_leaf(__u32 entry)
{
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	struct sf_rule rule = { .cfa = SF_CFA_FRAME_POINTER, .offset = 16, .ra_offset = -8 };
	bool saved;
	__u64 cfa;

	if (!work)
		return SF_END_NO_TABLE;
	rule.fp = SF_FP_AT_CFA;
	rule.fp_offset = -16;
	if (!is_frameless_leaf(&work->walk, &cfa, &saved)) {
		if (!work->walk.at.fp)
			return SF_END_ZERO;
		cfa = work->walk.at.fp + 16;
		if (cfa <= work->walk.at.sp)
			return SF_END_BAD_CFA;
		saved = true;
	}
	if (!saved)
		rule.fp = SF_FP_SAME;
	return enter_caller(&work->walk, entry, &rule, cfa);
}

/* What is not common: enum sf_end. `number` is of a rule. */
VERIFIED_ONCE step_rare(__u32 entry, __u32 number)
{
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	struct sf_rule *rule = bpf_map_lookup_elem(&rules, &number);
	bool innermost;
	__u64 base = 0;
	__u32 end;

	if (!work || !rule)
		return SF_END_NO_TABLE;
	innermost = work->walk.next == work->msg.kernel_frames + 1;
	if (number == SF_RULE_FRAME_POINTER && innermost)
		return step_leaf(entry);
	if (rule->cfa == SF_CFA_NONE)
		return SF_END_NO_RULE;
	if (rule->cfa == SF_CFA_BOTTOM)
		return SF_END_BOTTOM;
	if (rule->cfa == SF_CFA_SIGNAL)
		return leave_signal(&work->walk, entry, rule);
	if (sf_is_cut(rule, &work->walk.at, innermost))
		return SF_END_BOTTOM;
	if (sf_is_of_innermost(rule) && !innermost)
		return SF_END_NO_RULE;
	if (rule->cfa == SF_CFA_UNSUPPORTED || (rule->cfa == SF_CFA_REGISTER && !innermost) ||
	    (rule->ra == SF_RETURN_IN_REGISTER && !innermost))
		return SF_END_UNSUPPORTED;
	if ((rule->cfa == SF_CFA_FRAME_POINTER && !work->walk.at.fp) ||
	    (rule->cfa == SF_CFA_STACK_POINTER && !work->walk.at.sp))
		return SF_END_ZERO;
	if (rule->cfa == SF_CFA_REGISTER && !work->walk.has_registers)
		return END_REGISTERS;
	if (rule->cfa == SF_CFA_REGISTER)
		base = work->walk.registers[rule->reg & (SF_REGISTERS - 1)];
	else if (sf_has_slot(rule) && !read_word(&work->walk, entry, sf_slot_of(rule, &work->walk.at), &base))
		return SF_END_FAULT;
	base = sf_cfa_of(rule, &work->walk.at, base);
	if (base <= work->walk.at.sp && !(sf_may_switch(rule) && ++work->walk.switches <= STACK_SWITCHES))
		return SF_END_BAD_CFA;
	end = enter_caller(&work->walk, entry, rule, base);
	if (rule->cfa == SF_CFA_STACK_POINTER && rule->reg == SF_RULE_INTERRUPTED)
		work->walk.back = 0;
	return end;
}

/* Stack or frame pointer and a number: nearly all frames. */
static __always_inline enum sf_end step_plain(struct sf_walk *walk, __u32 entry, const struct sf_memo_slot *slot)
{
	__u64 cfa = slot->from_fp ? walk->at.fp : walk->at.sp;
	__u64 pc, fp = walk->at.fp;

	if (!cfa)
		return SF_END_ZERO;
	cfa += (__s64)slot->offset;
	if (cfa <= walk->at.sp)
		return SF_END_BAD_CFA;
	/* Before the return address, which lies above it: so the window moves once at the most. */
	if (slot->fp == SF_FP_AT_CFA && !read_word(walk, entry, cfa + (__s64)slot->fp_offset, &fp))
		return SF_END_FAULT;
	if (!read_word(walk, entry, cfa - 8, &pc))
		return SF_END_FAULT;
	if (!pc)
		return SF_END_ZERO;
	walk->at.pc = pc;
	walk->at.sp = cfa;
	walk->at.fp = slot->fp == SF_FP_UNDEFINED ? 0 : fp;
	walk->back = 1;
	return SF_END_NO_USER;
}

#endif
