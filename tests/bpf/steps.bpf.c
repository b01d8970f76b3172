// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Long runs through the production bodies: an array of steps, each of which is what one program does with one event,
 * less what it asks the kernel for (who runs, when, where). The clock is the steps' own.
 */
#include "steps.h"

/* 0: the real one. */
static volatile unsigned long long steps_clock_ns;
#define now_boot_ns() (steps_clock_ns ? steps_clock_ns : bpf_ktime_get_boot_ns())

#include "bpf/context.bpf.h"
#include "bpf/fold.bpf.h"
#include "bpf/sweep.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, STEPS_AT_ONCE *STEPS_RUNNERS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct sf_step);
} steps SEC(".maps");

static __always_inline struct sf_scratch *begin_step(const struct sf_step *step, __u32 entry, __u32 teller)
{
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);

	if (!work)
		return NULL;
	work->sample.pid_tgid = step->pid_tgid;
	work->sample.now_ns = step->now_ns;
	work->sample.process = step->process;
	work->sample.span = step->span;
	work->sample.kind = SF_KIND_ON_CPU;
	work->sample.source = SF_SOURCE_MAP;
	work->sample.teller = teller;
	work->sample.switches = step->switches;
	work->sample.in_kernel = step->in_kernel;
	work->msg.stack_id = step->stack_id;
	return work;
}

static __always_inline void tell_change(struct sf_step *step, struct sf_scratch *work, __u32 entry)
{
	copy_context(step->pid_tgid, &work->sample.old);
	step->caught_up = catch_up(entry, step->epoch) ? work->found.own : 0;
	settle(entry, step->epoch);
	step->own = work->found.own;
}

/* As lifecycle.bpf.c's tell() does. */
VERIFIED_ONCE step_hook(__u32 number)
{
	struct sf_step *step = bpf_map_lookup_elem(&steps, &number);
	struct sf_scratch *work;

	if (!step)
		return 0;
	work = begin_step(step, ENTRY_SET, SF_TELLER_HOOK);
	if (!work)
		return 0;
	tell_change(step, work, ENTRY_SET);
	return 0;
}

VERIFIED_ONCE step_map(__u32 number)
{
	struct sf_step *step = bpf_map_lookup_elem(&steps, &number);
	void *map = context_map();

	if (!step || !map)
		return 0;
	if (step->span.span_id)
		bpf_map_update_elem(map, &step->pid_tgid, &step->span, BPF_ANY);
	else
		bpf_map_delete_elem(map, &step->pid_tgid);
	return 0;
}

/* As lifecycle.bpf.c's tell_other() and on_evict() do. */
VERIFIED_ONCE step_note(__u32 number)
{
	struct sf_step *step = bpf_map_lookup_elem(&steps, &number);
	struct sf_note note = {};

	if (!step)
		return 0;
	note.ns = step->now_ns;
	note.span = step->span;
	note.evicted = step->evicted;
	copy_context(step->pid_tgid, &note.old);
	leave_note(step->pid_tgid, &note);
	return 0;
}

/* As on_cpu.bpf.c's take_sample() does, without the walk. */
VERIFIED_ONCE step_sample(__u32 number)
{
	struct sf_step *step = bpf_map_lookup_elem(&steps, &number);
	struct sf_scratch *work;
	struct event event;

	if (!step || !open_event(&event, step->epoch))
		return 0;
	work = begin_step(step, ENTRY_TICK, SF_TELLER_SAMPLE);
	if (!work)
		return 0;
	work->sample.source = context_of(&event, step->pid_tgid, &work->sample.span);
	step->result = 1;
	if (work->sample.source || knobs.background_stacks)
		step->result = fold(ENTRY_TICK, step->epoch);
	else
		settle(ENTRY_TICK, step->epoch);
	step->own = work->found.own;
	return 0;
}

/* As process.bpf.c's on_exit() does. */
VERIFIED_ONCE step_exit(__u32 number)
{
	struct sf_step *step = bpf_map_lookup_elem(&steps, &number);
	struct sf_scratch *work;
	struct sf_span span;
	void *map = context_map();

	if (!step || !map)
		return 0;
	work = begin_step(step, ENTRY_EXIT, SF_TELLER_EXIT);
	if (!work)
		return 0;
	__builtin_memset(&work->sample.span, 0, sizeof(work->sample.span));
	tell_change(step, work, ENTRY_EXIT);
	bpf_map_delete_elem(&notes, &step->pid_tgid);
	if (!read_map(map, step->pid_tgid, &span))
		return 0;
	bpf_map_update_elem(&left_behind, &step->pid_tgid, &span, BPF_ANY);
	left_entries = 1;
	return 0;
}

VERIFIED_ONCE step_sweep(__u32 number)
{
	struct sf_step *step = bpf_map_lookup_elem(&steps, &number);
	__u32 place;

	if (!step)
		return 0;
	step->result = 0;
	for (place = 0; place < MOST_PLACES && place < step->places; place++)
		if (!sweep_record(place, step->epoch))
			step->result++;
	return 0;
}

/* How often programs on this CPU found a record in use, or no place for one. */
static __always_inline __u64 busy_so_far(__u32 now_epoch)
{
	struct event event;

	if (!open_event(&event, now_epoch))
		return 0;
	return event.counters->count[SF_COUNT_BUSY] + event.counters->count[SF_COUNT_STAY_CROWD];
}

VERIFIED_ONCE do_step(__u32 number)
{
	struct sf_step *step = bpf_map_lookup_elem(&steps, &number);

	if (!step)
		return 0;
	switch (step->op) {
	case STEP_HOOK:
		return step_hook(number);
	case STEP_MAP:
		return step_map(number);
	case STEP_NOTE:
		return step_note(number);
	case STEP_SAMPLE:
		return step_sample(number);
	case STEP_EXIT:
		return step_exit(number);
	default:
		return step_sweep(number);
	}
}

VERIFIED_ONCE run_step(__u32 number)
{
	struct sf_step *step = bpf_map_lookup_elem(&steps, &number);
	__u64 busy;
	bool real;

	if (!step)
		return 0;
	busy = busy_so_far(step->epoch);
	real = !step->now_ns;
	if (real)
		step->now_ns = now_boot_ns();
	else
		steps_clock_ns = step->now_ns;
	do_step(number);
	if (real && step->op == STEP_MAP)
		step->now_ns = now_boot_ns();
	step->busy = (__u32)(busy_so_far(step->epoch) - busy);
	return 0;
}

/* args[0]: how many of the steps, args[1]: the first. */
SEC("raw_tp")
int run_steps(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 i, steps_count = (__u32)ctx->args[0], first = (__u32)ctx->args[1];

	for (i = 0; i < STEPS_AT_ONCE && i < steps_count; i++)
		run_step(first + i);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
