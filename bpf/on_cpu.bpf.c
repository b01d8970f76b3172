// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The tick: one run for each sample that a CPU's clock event takes. Every run ends in exactly one fate. */
#include "context.bpf.h"
#include "fold.bpf.h"
#include "stack.bpf.h"

/* A tick outside any span: no walk, and a share of its own for each process. */
static __always_inline void count_background(struct event *event, const struct sf_process *process)
{
	struct sf_background *share;

	event->counters->count[SF_COUNT_BACKGROUND]++;
	remember_process(process, false);
	share = bpf_map_lookup_elem(&processes, process);
	if (share)
		__sync_fetch_and_add(&share->ticks[event->epoch & 1], 1);
}

static __always_inline void fold_tick(struct event *event, struct bpf_perf_event_data *ctx, struct sf_scratch *work,
				      enum sf_count fate)
{
	stack_of(ctx, ENTRY_TICK, event, work);
	work->sample.now_ns = now_boot_ns();
	/* Only now: a record that was looked up before the walk could be another's after it. */
	if (fold(ENTRY_TICK, event->epoch))
		event->counters->count[fate]++;
}

/* With --max-span-age: has the thread been in this span for too long to believe it? */
static __always_inline bool is_too_old(const struct sf_sample *sample)
{
	return knobs.max_age_ns && sample->source &&
	       age_of(sample->pid_tgid, &sample->span, now_boot_ns()) > knobs.max_age_ns;
}

/* Neither idle nor filtered. */
static __always_inline void take_sample(struct event *event, struct bpf_perf_event_data *ctx, __u64 pid_tgid)
{
	__u32 entry = ENTRY_TICK;
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	struct sf_sample *sample;

	if (!work) {
		count_drop(event, SF_DROP_NO_SCRATCH);
		return;
	}
	sample = &work->sample;
	sample->pid_tgid = pid_tgid;
	sample->kind = SF_KIND_ON_CPU;
	process_of(current_task(), &sample->process);
	sample->switches = switches_of(current_task());
	sample->teller = SF_TELLER_SAMPLE;
	sample->in_kernel = is_kernel_address(PT_REGS_IP(&ctx->regs));
	sample->source = context_of(event, pid_tgid, &sample->span);
	if (is_too_old(sample)) {
		count(event, SF_COUNT_STALE);
		count_background(event, &sample->process);
	} else if (sample->source) {
		fold_tick(event, ctx, work, SF_COUNT_IN_SPAN);
	} else if (knobs.background_stacks) {
		fold_tick(event, ctx, work, SF_COUNT_BACKGROUND);
	} else {
		sample->now_ns = now_boot_ns();
		settle(entry, event->epoch);
		count_background(event, &sample->process);
	}
}

SEC("perf_event")
int on_tick(struct bpf_perf_event_data *ctx)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct event event;
	__u64 begin_ns;

	if (!open_event(&event, epoch))
		return 0;
	begin_ns = begin_watch(&event, SF_COUNT_TICKS);
	event.counters->count[SF_COUNT_TICKS]++;
	if (!pid_tgid)
		event.counters->count[SF_COUNT_IDLE]++;
	else if (!is_wanted(pid_tgid))
		event.counters->count[SF_COUNT_FILTERED]++;
	else
		take_sample(&event, ctx, pid_tgid);
	end_watch(&event, begin_ns);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
