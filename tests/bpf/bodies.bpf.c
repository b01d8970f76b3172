// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * The production bodies, each in a raw tracepoint program that test_run can call: it runs with preemption off, as a
 * tick does, and on 5.10 too. Arguments come in a map, results go back into it.
 */
#include "bodies.h"

#include "bpf/context.bpf.h"
#include "bpf/fold.bpf.h"
#include "bpf/stack.bpf.h"
#include "bpf/sweep.bpf.h"
#include "bpf/task.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BODY_INPUTS);
	__type(key, __u32);
	__type(value, struct sf_body_input);
} inputs SEC(".maps");

static __always_inline struct sf_body_input *input_of(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 number = (__u32)ctx->args[0];

	return bpf_map_lookup_elem(&inputs, &number);
}

static __always_inline struct sf_scratch *fill_scratch(const struct sf_body_input *input)
{
	__u32 entry = ENTRY_TICK;
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);

	if (!work)
		return NULL;
	work->sample.pid_tgid = input->pid_tgid;
	work->sample.now_ns = input->now_ns;
	work->sample.process = input->process;
	work->sample.span = input->span;
	work->sample.old = input->old;
	work->sample.kind = SF_KIND_ON_CPU;
	work->sample.source = SF_SOURCE_MAP;
	work->sample.teller = input->teller;
	work->sample.switches = input->switches;
	work->msg.stack_id = input->stack_id;
	return work;
}

SEC("raw_tp")
int body_fold(struct bpf_raw_tracepoint_args *ctx)
{
	struct sf_body_input *input = input_of(ctx);

	if (input && fill_scratch(input))
		input->result = fold(ENTRY_TICK, input->epoch);
	return 0;
}

/* What input->teller tells of a thread, without a sample. */
SEC("raw_tp")
int body_settle(struct bpf_raw_tracepoint_args *ctx)
{
	struct sf_body_input *input = input_of(ctx);

	if (input && fill_scratch(input))
		settle(ENTRY_TICK, input->epoch);
	return 0;
}

SEC("raw_tp")
int body_sweep(struct bpf_raw_tracepoint_args *ctx)
{
	struct sf_body_input *input = input_of(ctx);

	if (input)
		input->result = sweep_record(input->place, input->epoch);
	return 0;
}

SEC("raw_tp")
int body_send(struct bpf_raw_tracepoint_args *ctx)
{
	struct sf_body_input *input = input_of(ctx);
	struct sf_scratch *work;

	if (!input)
		return 0;
	work = fill_scratch(input);
	if (!work)
		return 0;
	work->msg.process = input->process;
	work->msg.kernel_frames = 0;
	work->msg.head.count = (__u16)input->frames;
	send_once(ENTRY_TICK, input->epoch);
	return 0;
}

SEC("raw_tp")
int body_context(struct bpf_raw_tracepoint_args *ctx)
{
	struct sf_body_input *input = input_of(ctx);
	struct event event;

	if (input && open_event(&event, input->epoch))
		input->result = context_of(&event, input->pid_tgid, &input->span);
	return 0;
}

/* Has anybody asked for the thread that calls this? */
SEC("raw_tp")
int body_wanted(struct bpf_raw_tracepoint_args *ctx)
{
	struct sf_body_input *input = input_of(ctx);

	if (input)
		input->result = is_wanted(bpf_get_current_pid_tgid());
	return 0;
}

SEC("raw_tp")
int body_waiting(struct bpf_raw_tracepoint_args *ctx)
{
	struct sf_body_input *input = input_of(ctx);

	if (input)
		input->result = (__s64)bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);
	return 0;
}

/* The sample of step `i` of a storm; the test computes the same ones. */
VERIFIED_ONCE storm_step(__u32 number, __u32 i)
{
	struct sf_body_input *input = bpf_map_lookup_elem(&inputs, &number);
	struct sf_scratch *work;

	if (!input)
		return 0;
	work = fill_scratch(input);
	if (!work)
		return 0;
	work->sample.span.span_id = STORM_SPAN(i);
	work->msg.stack_id = STORM_STACK(input->pid_tgid, i);
	if (!fold(ENTRY_TICK, input->epoch))
		return 0;
	/* Often, so that records are opened and released all the time: two threads then go for the same free one. */
	if (i % 2) {
		work->sample.teller = SF_TELLER_EXIT;
		__builtin_memset(&work->sample.span, 0, sizeof(work->sample.span));
		settle(ENTRY_TICK, input->epoch);
	}
	return 1;
}

SEC("raw_tp")
int body_storm(struct bpf_raw_tracepoint_args *ctx)
{
	struct sf_body_input *input = input_of(ctx);
	__u32 i, number = (__u32)ctx->args[0];

	if (!input)
		return 0;
	input->result = 0;
	for (i = 0; i < STORM_STEPS; i++)
		input->result += storm_step(number, i);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
