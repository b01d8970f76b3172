/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From registers to a stack id. The only door is stack_of(): it walks, hashes, and at first sight sends the frames, so
 * that the walk behind it can change without anybody noticing.
 */
#ifndef SPANFOLD_STACK_BPF_H
#define SPANFOLD_STACK_BPF_H

#include "emit.bpf.h"
#include "task.bpf.h"

#define HALF_BYTES (SF_MAX_FRAMES * sizeof(__u64))

/* Kernel frames first, and only if the tick hit the kernel. Returns how many frames there are in all. */
static __always_inline __u32 walk(struct bpf_perf_event_data *ctx, struct sf_stack_msg *msg)
{
	__u32 kernel = 0, user = 0;
	long bytes;

	if (is_kernel_address(PT_REGS_IP(&ctx->regs))) {
		bytes = bpf_get_stack(ctx, msg->frames, HALF_BYTES, 0);
		if (bytes > 0)
			kernel = (__u32)bytes / sizeof(__u64);
	}
	kernel &= SF_MAX_FRAMES; /* 127 is all ones: says to the verifier what is true anyway */
	bytes = bpf_get_stack(ctx, &msg->frames[kernel], HALF_BYTES, BPF_F_USER_STACK);
	if (bytes > 0)
		user = (__u32)bytes / sizeof(__u64);
	user &= SF_MAX_FRAMES;
	msg->kernel_frames = kernel;
	return kernel + user;
}

static __always_inline __u64 hash_frames(const struct sf_stack_msg *msg, __u32 frames)
{
	__u64 hash = sf_hash_open(knobs.seed, &msg->process, msg->kernel_frames, frames);
	__u32 i;

	for (i = 0; i < 2 * SF_MAX_FRAMES; i++) {
		if (i >= frames)
			break;
		hash = sf_mix(hash, msg->frames[i]);
	}
	return sf_hash_close(hash);
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
	/* The loader reads a new process's mappings while it is still there. */
	flag = remember_process(&msg->process, in_span) ? BPF_RB_FORCE_WAKEUP : wakeup_flag();
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

/* The id of the stack under `ctx` in the process of the sample at hand. */
static __always_inline __u64 stack_of(struct bpf_perf_event_data *ctx, enum entry entry, __u32 now_epoch,
				      struct sf_scratch *work)
{
	__u32 frames;

	work->msg.process = work->sample.process;
	frames = walk(ctx, &work->msg);
	work->msg.head.count = (__u16)frames;
	work->msg.stack_id = hash_frames(&work->msg, frames);
	send_once(entry, now_epoch);
	return work->msg.stack_id;
}

#endif
