// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Walks the stacks of one process, and sends with each what an unwinder of another make needs to do the same. */
#include "truth.h"

#include "bpf/stack.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct truth_sums);
} sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 << 20);
} samples SEC(".maps");

__u32 target; /* the process */
__u32 counts; /* 1: its tables are there */

static __always_inline void copy_stack(struct truth_sample *sample)
{
	__u32 i;

	sample->stack_bytes = 0;
	for (i = 0; i < TRUTH_PIECES; i++) {
		if (bpf_probe_read_user(sample->stack + i * TRUTH_PIECE_BYTES, TRUTH_PIECE_BYTES,
					(void *)(sample->stack_at + i * TRUTH_PIECE_BYTES)))
			break;
		sample->stack_bytes += TRUTH_PIECE_BYTES;
	}
}

static __always_inline void copy_frames(struct truth_sample *sample, const struct sf_scratch *work)
{
	__u32 i;

	sample->frames = work->walk.next;
	for (i = 0; i < SF_USER_FRAMES; i++) {
		if (i >= work->walk.next)
			break;
		sample->frame[i] = work->msg.frames[i];
	}
}

static __always_inline void walk(struct bpf_perf_event_data *ctx, struct sf_scratch *work)
{
	walk_user(work, ENTRY_TICK);
	if (work->walk.end != END_REGISTERS)
		return;
	take_all_registers(&work->walk, &ctx->regs);
	take_registers(&work->walk, &ctx->regs);
	walk_user(work, ENTRY_TICK);
}

SEC("perf_event")
int on_truth(struct bpf_perf_event_data *ctx)
{
	__u32 zero = 0, i, in_kernel = is_kernel_address(PT_REGS_IP(&ctx->regs));
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &zero);
	struct truth_sums *sum = bpf_map_lookup_elem(&sums, &zero);
	struct truth_sample *sample;

	if (!sum || !work || bpf_get_current_pid_tgid() >> 32 != target)
		return 0;
	process_of(current_task(), &work->msg.process);
	work->msg.kernel_frames = 0;
	work->walk.next = 0;
	work->walk.end = SF_END_NO_USER;
	if (in_kernel) {
		if (!enter_user(ENTRY_TICK))
			return 0;
	} else {
		take_registers(&work->walk, &ctx->regs);
		take_all_registers(&work->walk, &ctx->regs);
		work->walk.has_registers = 0; /* asked for on demand, as when it counts */
	}
	sample = bpf_ringbuf_reserve(&samples, sizeof(*sample), 0);
	if (sample) {
		sample->process = work->msg.process;
		image_of(current_task(), &sample->image);
		sample->pc = work->walk.at.pc;
		sample->in_kernel = in_kernel;
		for (i = 0; i < SF_REGISTERS; i++)
			sample->registers[i] = work->walk.registers[i];
		sample->stack_at = work->walk.at.sp & ~(__u64)(TRUTH_PIECE_BYTES - 1);
		copy_stack(sample);
	}
	walk(ctx, work);
	if (counts) {
		sum->runs++;
		sum->ends[work->walk.end & 15]++;
	}
	if (!sample)
		return 0;
	copy_frames(sample, work);
	sample->end = work->walk.end;
	bpf_ringbuf_submit(sample, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
