/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From registers to a stack id. The only door is stack_of(): it walks, hashes, and at first sight sends the frames, so
 * that the walk behind it can change without anybody noticing.
 */
#ifndef SPANFOLD_STACK_BPF_H
#define SPANFOLD_STACK_BPF_H

#include "emit.bpf.h"
#include "walk.bpf.h"

#define KERNEL_BYTES (SF_KERNEL_FRAMES * sizeof(__u64))

/* Frames of the kernel, if the tick hit it. */
static __always_inline __u32 walk_kernel(struct bpf_perf_event_data *ctx, struct sf_stack_msg *msg)
{
	long bytes = bpf_get_stack(ctx, msg->frames, KERNEL_BYTES, 0);

	/* 127 is all ones: says to the verifier what is true anyway */
	return bytes > 0 ? ((__u32)bytes / sizeof(__u64)) & SF_KERNEL_FRAMES : 0;
}

/* The frames of the kernel into the hash, one by one: those of the user's half come as they are found. */
VERIFIED_ONCE hash_kernel(__u32 entry)
{
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	__u32 i;

	if (!work)
		return 0;
	for (i = 0; i < SF_KERNEL_FRAMES; i++) {
		if (i >= work->msg.kernel_frames)
			break;
		work->walk.hash = sf_mix(work->walk.hash, work->msg.frames[i]);
	}
	return 0;
}

/* Is the walk's end one that the loader can mend? */
static __always_inline bool is_wanting(__u32 end)
{
	return end == SF_END_NO_SPACE || end == SF_END_NO_MAPPING || end == SF_END_NO_TABLE;
}

static __always_inline bool send_stack(struct event *event, struct sf_stack_msg *msg, bool in_span)
{
	__u64 bytes = SF_OFFSET(struct sf_stack_msg, frames) + msg->head.count * sizeof(__u64);
	__u64 flag;

	msg->head.type = SF_MSG_STACK;
	msg->head.source = SF_SOURCE_NONE;
	msg->head.epoch = event->epoch;
	image_of(current_task(), &msg->image);
	msg->seen_ns = now_boot_ns();
	/* The loader reads a new process's mappings while it is still there, and tells what the walk lacks. */
	flag = remember_process(&msg->process, in_span) || is_wanting(msg->end) ? BPF_RB_FORCE_WAKEUP : wakeup_flag();
	if (bytes > sizeof(*msg))
		return false;
	return bpf_ringbuf_output(&ring, msg, bytes, flag) == 0;
}

/* Is the id in its set? If not, `way` is where it goes: the first free one, else any. */
static __always_inline bool was_sent(const struct sf_sent *set, __u64 tag, __u32 *way)
{
	__u32 i;

	*way = (tag >> 24) & (SF_SENT_WAYS - 1);
	for (i = SF_SENT_WAYS; i > 0; i--) {
		if (set->tag[i - 1] == tag)
			return true;
		if (!set->tag[i - 1])
			*way = i - 1;
	}
	return false;
}

/* Sends the frames unless their id is in the set of sent ids; a refused one stays out of the set and is tried again. */
VERIFIED_ONCE send_once(__u32 entry, __u32 now_epoch)
{
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	struct sf_sent *set;
	struct event event;
	__u32 at, way;
	__u64 tag;

	if (!work || !open_event(&event, now_epoch))
		return 0;
	tag = sf_mix(work->msg.stack_id, sent_since);
	at = (__u32)(tag >> 32) & knobs.sent_mask;
	set = bpf_map_lookup_elem(&sent, &at);
	if (!set || was_sent(set, tag, &way))
		return 0;
	if (!send_stack(&event, &work->msg, work->sample.source)) {
		count(&event, SF_COUNT_STACKS_REFUSED);
		return 0;
	}
	set->tag[way & (SF_SENT_WAYS - 1)] = tag;
	count(&event, SF_COUNT_STACKS_SENT);
	return 0;
}

/* A tick's own counter: nothing interrupts it to count the same. */
static __always_inline void count_end(struct event *event, __u64 end)
{
	if (end < SF_END_COUNT)
		event->counters->count[SF_COUNT_ENDS + end]++;
}

/* The id of the stack under `ctx` in the process of the sample at hand. */
static __always_inline __u64 stack_of(struct bpf_perf_event_data *ctx, enum entry entry, struct event *event,
				      struct sf_scratch *work)
{
	struct sf_walk *walk = &work->walk;
	bool has_user = true;
	__u64 hash;

	work->msg.process = work->sample.process;
	work->msg.kernel_frames = 0;
	walk->end = SF_END_NO_USER;
	walk->next = 0;
	walk->has_registers = 0;
	walk->hash = hash = sf_hash_open(knobs.seed, &work->msg.process);
	if (work->sample.in_kernel) {
		work->msg.kernel_frames = walk_kernel(ctx, &work->msg);
		hash_kernel(entry);
		hash = walk->hash;
		walk->next = work->msg.kernel_frames;
		has_user = enter_user(entry);
	} else {
		take_registers(walk, &ctx->regs);
	}
	if (has_user)
		walk_user(work, entry);
	if (walk->end == END_REGISTERS) {
		take_all_registers(walk, &ctx->regs);
		take_registers(walk, &ctx->regs);
		walk->hash = hash;
		walk_user(work, entry);
	}
	work->msg.end = walk->end;
	work->msg.head.count = (__u16)walk->next;
	work->msg.stack_id = sf_hash_close(walk->hash, work->msg.kernel_frames, walk->next, walk->end);
	count_end(event, walk->end);
	send_once(entry, event->epoch);
	return work->msg.stack_id;
}

#endif
