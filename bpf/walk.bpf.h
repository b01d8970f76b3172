/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The walk over a user stack, frame by frame, by the rules that the loader made of the files' call-frame information,
 * or by frame pointers where code is known to keep them. State is in the scratch of the entry at hand, so that some
 * frames are verified once.
 */
#ifndef SPANFOLD_WALK_BPF_H
#define SPANFOLD_WALK_BPF_H

#include "registers.bpf.h"
#include "step.bpf.h"

/* Appends the frame at hand. */
static __always_inline void push_frame(struct sf_scratch *work)
{
	struct sf_walk *walk = &work->walk;

	work->msg.frames[walk->next & (SF_KERNEL_FRAMES + SF_USER_FRAMES)] = walk->at.pc;
	walk->hash = sf_mix(walk->hash, walk->at.pc);
	walk->next++;
}

/* One frame: appended, and its caller found. SF_END_NO_USER: there is one. */
static __always_inline enum sf_end walk_frame(struct sf_scratch *work, struct sf_memo *memo, __u32 entry)
{
	struct sf_walk *walk = &work->walk;
	struct sf_memo_slot *slot;

	if (walk->next >= walk->stop)
		return SF_END_DEPTH;
	slot = slot_of_frame(memo, walk, entry);
	/* The innermost frame of code with frame pointers is looked at more closely. */
	if (slot->is_plain && (walk->back || slot->number != SF_RULE_FRAME_POINTER)) {
		push_frame(work);
		return step_plain(walk, entry, slot);
	}
	if (slot->number == END_UPROBES && walk->back)
		return find_probed_return(entry) ? SF_END_NO_USER : SF_END_NO_RULE;
	/* What lies in no code is no return address. The innermost frame is a fact. */
	if (slot->number == END_OF(SF_END_NO_MAPPING) && walk->next != work->msg.kernel_frames)
		return SF_END_NO_MAPPING;
	push_frame(work);
	if (slot->number == END_UPROBES)
		return SF_END_NO_RULE;
	return slot->number >= SF_RULES ? slot->number - SF_RULES : step_rare(entry, slot->number);
}

/* So many at once, with the state at hand. */
#define FRAMES_AT_ONCE 4

/* Some frames. Not 0: the walk has ended. */
VERIFIED_ONCE walk_frames(__u32 entry)
{
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	__u32 i, end = SF_END_NO_USER, zero = 0;
	struct sf_memo *memo = bpf_map_lookup_elem(&memos, &zero);

	if (!work || !memo)
		return 1;
	for (i = 0; i < FRAMES_AT_ONCE; i++) {
		end = walk_frame(work, memo, entry);
		if (end)
			break;
	}
	work->walk.end = end;
	return end;
}

/* Walks the stack under the registers in the scratch; frames go behind those of the kernel. */
static __always_inline void walk_user(struct sf_scratch *work, __u32 entry)
{
	struct sf_walk *walk = &work->walk;
	__u32 i;

	walk->next = work->msg.kernel_frames;
	walk->stop = walk->next + knobs.max_frames;
	walk->switches = 0;
	walk->window_bytes = 0;
	walk->end = SF_END_NO_SPACE;
	if (!open_space(walk, &work->msg.process)) {
		push_frame(work);
		return;
	}
	for (i = 0; i <= SF_USER_FRAMES / FRAMES_AT_ONCE; i++) {
		if (walk_frames(entry))
			break;
	}
}

#endif
