// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Walks the same user stack by the kernel's helper and by ours, in turns, and takes the time of both. */
#include "walk.h"

#include "bpf/stack.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct walk_sums);
} sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct walk_frames);
} helper_frames SEC(".maps");

static __always_inline void by_helper(struct bpf_perf_event_data *ctx, struct walk_sums *sum)
{
	__u32 zero = 0;
	struct walk_frames *frames = bpf_map_lookup_elem(&helper_frames, &zero);
	__u64 begin_ns = bpf_ktime_get_ns();
	long bytes;

	if (!frames)
		return;
	bytes = bpf_get_stack(ctx, frames->frame, sizeof(frames->frame), BPF_F_USER_STACK);
	sum->helper_ns += bpf_ktime_get_ns() - begin_ns;
	if (bytes > 0)
		sum->helper_frames += (__u64)bytes / sizeof(__u64);
}

static __always_inline void by_ours(struct bpf_perf_event_data *ctx, struct walk_sums *sum, struct sf_scratch *work)
{
	__u64 begin_ns = bpf_ktime_get_ns();
	struct sf_walk *walk = &work->walk;
	bool has_user = true;

	walk->next = 0;
	walk->end = SF_END_NO_USER;
	walk->has_registers = 0;
	if (is_kernel_address(PT_REGS_IP(&ctx->regs))) {
		has_user = enter_user(ENTRY_TICK);
	} else {
		take_registers(walk, &ctx->regs);
	}
	if (has_user)
		walk_user(work, ENTRY_TICK);
	if (walk->end == END_REGISTERS) {
		take_all_registers(walk, &ctx->regs);
		take_registers(walk, &ctx->regs);
		walk_user(work, ENTRY_TICK);
	}
	sum->ours_ns += bpf_ktime_get_ns() - begin_ns;
	sum->ours_frames += walk->next;
	if (walk->end < SF_END_COUNT)
		sum->ends[walk->end & 15]++;
}

SEC("perf_event")
int on_walk(struct bpf_perf_event_data *ctx)
{
	__u32 zero = 0;
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &zero);
	struct walk_sums *sum = bpf_map_lookup_elem(&sums, &zero);

	if (!sum || !work)
		return 0;
	work->msg.kernel_frames = 0;
	process_of(current_task(), &work->msg.process);
	/* Whoever comes second finds the stack in the caches. */
	if (sum->runs++ & 1) {
		by_helper(ctx, sum);
		by_ours(ctx, sum, work);
	} else {
		by_ours(ctx, sum, work);
		by_helper(ctx, sum);
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
