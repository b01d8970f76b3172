/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which rule holds at an address: out of the memo, or by range, section, index and row. */
#ifndef SPANFOLD_RULES_BPF_H
#define SPANFOLD_RULES_BPF_H

#include "knobs.bpf.h"
#include "maps.bpf.h"
#include "unwind.h"

/* Steps of a binary search over all ranges that there may be. */
#define RANGE_STEPS 15

/* Answers beside the number of a rule: why there is none. */
#define END_OF(end) (SF_RULES + (end))
/* No end and no rule: the return address is not the caller's. */
#define END_UPROBES END_OF(SF_END_COUNT)

static __always_inline bool is_same_process(const struct sf_process *a, const struct sf_process *b)
{
	return a->start_ns == b->start_ns && a->tgid == b->tgid && a->exec_id == b->exec_id;
}

/* The process's mappings, if the loader has told them: mostly those of the walk before. */
static __always_inline bool open_space(struct sf_walk *walk, const struct sf_process *process)
{
	const struct sf_space *space;
	__u32 version = spaces_version;

	if (walk->spaces_version == version && walk->space.generation && is_same_process(&walk->space.process, process))
		return true;
	walk->space.generation = 0;
	walk->range.bytes = 0;
	space = bpf_map_lookup_elem(&spaces, process);
	if (!space)
		return false;
	walk->spaces_version = version;
	walk->space = *space;
	return is_same_process(&walk->space.process, process);
}

/* Makes the range that holds `walk->look` the walk's range. 0: there is none. */
VERIFIED_ONCE find_range(__u32 entry)
{
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	struct sf_walk *walk;
	struct sf_range *range;
	__u32 low, high, i, at;

	if (!work)
		return 0;
	walk = &work->walk;
	low = walk->space.first;
	high = walk->space.first + walk->space.count;
	for (i = 0; i < RANGE_STEPS; i++) {
		at = (low + high) >> 1;
		if (low >= high)
			break;
		range = bpf_map_lookup_elem(&ranges, &at);
		if (!range)
			return 0;
		if (range->start <= walk->look)
			low = at + 1;
		else
			high = at;
	}
	if (low <= walk->space.first)
		return 0;
	at = low - 1;
	range = bpf_map_lookup_elem(&ranges, &at);
	if (!range || walk->look - range->start >= range->bytes)
		return 0;
	walk->range = *range;
	return 1;
}

/* The rule for `walk->look`, or why there is none. */
VERIFIED_ONCE find_rule(__u32 entry)
{
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	struct sf_section *section;
	struct sf_chunk *chunk;
	struct sf_walk *walk;
	__u32 number;

	if (!work)
		return END_OF(SF_END_NO_SPACE);
	walk = &work->walk;
	if (walk->look - walk->range.start >= walk->range.bytes && !find_range(entry))
		return END_OF(SF_END_NO_MAPPING);
	if (walk->range.kind == SF_RANGE_FRAME_POINTER)
		return SF_RULE_FRAME_POINTER;
	if (walk->range.kind == SF_RANGE_UPROBES)
		return END_UPROBES;
	if (walk->range.kind == SF_RANGE_NO_RULE)
		return SF_RULE_NONE;
	if (walk->range.kind != SF_RANGE_TABLE)
		return END_OF(SF_END_NO_TABLE);
	number = walk->range.section;
	section = bpf_map_lookup_elem(&sections, &number);
	if (!section || section->serial != walk->range.serial)
		return END_OF(SF_END_NO_TABLE);
	number = section->chunk;
	chunk = bpf_map_lookup_elem(&chunks, &number);
	if (!chunk)
		return END_OF(SF_END_NO_TABLE);
	return sf_row_rule(
		sf_row_at(chunk->words, section, walk->range.text + (__u32)(walk->look - walk->range.start)));
}

/*
 * Where `add $N,%rsp; ret` stands behind a call, the frame is N bytes and a return address, whatever code with frame
 * pointers does else: the trampolines by which CPython shows its functions are such. 0: it does not stand there.
 */
static __always_inline __u32 bytes_to_return(__u64 address)
{
#if defined(__TARGET_ARCH_x86)
	__u64 code = 0;

	if (bpf_probe_read_user(&code, sizeof(code), (void *)address))
		return 0;
	if ((code & 0xff00ffffff) == 0xc300c48348)
		return (code >> 24) & 0x78;
#endif
	return 0;
}

/* Fills a slot for the address that is looked up. */
static __always_inline void remember(struct sf_walk *walk, struct sf_memo_slot *slot, __u32 number)
{
	const struct sf_rule *rule = bpf_map_lookup_elem(&rules, &number);
	__u32 bytes;

	slot->generation = 0;
	slot->address = walk->look;
	slot->number = number;
	slot->is_plain = 0;
	if (!rule)
		return;
	slot->is_plain = sf_is_plain(rule);
	slot->from_fp = rule->cfa == SF_CFA_FRAME_POINTER;
	slot->fp = rule->fp;
	slot->offset = rule->offset;
	slot->fp_offset = rule->fp_offset;
	slot->generation = walk->space.generation;
	if (number != SF_RULE_FRAME_POINTER || !walk->back)
		return;
	bytes = bytes_to_return(walk->look + 1);
	if (!bytes)
		return;
	slot->from_fp = 0;
	slot->fp = SF_FP_SAME;
	slot->offset = (__s32)bytes + 8;
}

/* A rule is kept in mind for its address, as long as the process maps nothing anew. */
static __always_inline struct sf_memo_slot *slot_of(struct sf_memo *memo, struct sf_walk *walk, __u32 entry, __u64 look)
{
	struct sf_memo_slot *slot;

	slot = &memo->slot[(__u32)(look ^ look >> 10) & (SF_MEMO_SLOTS - 1)];
	if (slot->address != look || slot->generation != walk->space.generation) {
		walk->look = look;
		remember(walk, slot, (__u32)find_rule(entry));
	}
	return slot;
}

/* Where no rule holds before a return address, one may hold behind it: a context that was made begins there. */
static __always_inline struct sf_memo_slot *slot_of_frame(struct sf_memo *memo, struct sf_walk *walk, __u32 entry)
{
	struct sf_memo_slot *slot;

	slot = slot_of(memo, walk, entry, walk->at.pc - walk->back);
	if (slot->is_plain || !walk->back ||
	    (slot->number != SF_RULE_NONE && slot->number != END_OF(SF_END_NO_MAPPING)))
		return slot;
	return slot_of(memo, walk, entry, walk->at.pc);
}

#endif
