/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Pure logic of unwinding: which row holds for an address, and where a rule says that the caller's registers are. No
 * helpers and no maps, as core.h, so that the host's tests hold it against a naive reading of the same rows.
 */
#ifndef SPANFOLD_UNWIND_H
#define SPANFOLD_UNWIND_H

#include "core.h"

/* 256 rows at the most in a bucket: eight halvings leave one, the ninth none. */
#define SF_SEARCH_STEPS 9

/* The row that holds at `text`, bytes after the beginning of the section's text; 0 where none does. */
SF_INLINE __u32 sf_row_at(const __u32 *words, const struct sf_section *section, __u32 text)
{
	const __u32 mask = SF_CHUNK_WORDS - 1;
	__u32 bucket = text >> SF_BUCKET_SHIFT;
	__u32 want = text & ((1U << SF_BUCKET_SHIFT) - 1);
	__u32 low, high, i;

	if (bucket >= section->buckets)
		return 0;
	low = words[(section->index + bucket) & mask];
	high = words[(section->index + bucket + 1) & mask];
	for (i = 0; i < SF_SEARCH_STEPS; i++) {
		__u32 middle = (low + high) >> 1;

		if (low >= high)
			break;
		if ((words[(section->rows + middle) & mask] & ((1U << SF_BUCKET_SHIFT) - 1)) <= want)
			low = middle + 1;
		else
			high = middle;
	}
	/* The last one of an earlier bucket goes on. */
	return low ? words[(section->rows + low - 1) & mask] : 0;
}

SF_INLINE __u32 sf_row_rule(__u32 row)
{
	return (row >> SF_ROW_RULE_SHIFT) & (SF_RULES - 1);
}

/* May the caller be on another stack? Only what says itself where that goes on leads there. */
SF_INLINE int sf_may_switch(const struct sf_rule *rule)
{
	return rule->cfa == SF_CFA_STACK_POINTER_SLOT || rule->cfa == SF_CFA_FRAME_POINTER_SLOT ||
	       (rule->cfa == SF_CFA_FRAME_POINTER && rule->reg == SF_RULE_SWITCHES);
}

/* Is the way back to the other stack cut? Go's runtime does that where it goes to its scheduler for good. */
SF_INLINE int sf_is_cut(const struct sf_rule *rule, const struct sf_registers *at, int innermost)
{
	if (rule->reg != SF_RULE_SWITCHES || at->fp)
		return 0;
	return rule->cfa == SF_CFA_FRAME_POINTER || (rule->cfa == SF_CFA_STACK_POINTER && !innermost);
}

/* Does the rule hold for the innermost frame only, because the stack is another one later? */
SF_INLINE int sf_is_of_innermost(const struct sf_rule *rule)
{
	return rule->cfa == SF_CFA_STACK_POINTER && rule->reg == SF_RULE_SWITCHES;
}

/* Does the rule tell the CFA from stack or frame pointer, and the rest from that? Nearly all do. */
SF_INLINE int sf_is_plain(const struct sf_rule *rule)
{
	return (rule->cfa == SF_CFA_STACK_POINTER || rule->cfa == SF_CFA_FRAME_POINTER) &&
	       rule->fp != SF_FP_AT_POINTER && rule->ra == SF_RETURN_AT_CFA && rule->ra_offset == -8 &&
	       rule->reg == SF_RULE_CALLS;
}

/* Does the rule's CFA want something that is in memory? Where that is. */
SF_INLINE int sf_has_slot(const struct sf_rule *rule)
{
	return rule->cfa == SF_CFA_STACK_POINTER_SLOT || rule->cfa == SF_CFA_FRAME_POINTER_SLOT;
}

SF_INLINE __u64 sf_slot_of(const struct sf_rule *rule, const struct sf_registers *at)
{
	return (rule->cfa == SF_CFA_STACK_POINTER_SLOT ? at->sp : at->fp) + (__s64)rule->slot;
}

/* The CFA. `base` is the value in the slot, or the register of SF_CFA_REGISTER. */
SF_INLINE __u64 sf_cfa_of(const struct sf_rule *rule, const struct sf_registers *at, __u64 base)
{
	switch (rule->cfa) {
	case SF_CFA_STACK_POINTER:
		return at->sp + (__s64)rule->offset;
	case SF_CFA_FRAME_POINTER:
		return at->fp + (__s64)rule->offset;
	case SF_CFA_PLT:
		return at->sp + 8 + ((at->pc & 15) >= (__u32)rule->offset ? 8 : 0);
	default:
		return base + (__s64)rule->offset;
	}
}

/* Where the caller's frame pointer lies; 0: in no memory. */
SF_INLINE __u64 sf_saved_fp_of(const struct sf_rule *rule, const struct sf_registers *at, __u64 cfa)
{
	if (rule->fp == SF_FP_AT_CFA)
		return cfa + (__s64)rule->fp_offset;
	if (rule->fp == SF_FP_AT_POINTER)
		return at->fp + (__s64)rule->fp_offset;
	return 0;
}

#endif
