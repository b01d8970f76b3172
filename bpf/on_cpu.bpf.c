// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The tick: one run for each sample that a CPU's clock event takes. Every run ends in exactly one fate. */
#include "context.bpf.h"
#include "fold.bpf.h"
#include "stack.bpf.h"

/* A tick outside any span: no walk, and a share of its own for each process that carried a span. */
static __always_inline void count_background(struct event *event, const struct sf_process *process)
{
	struct sf_background *share = bpf_map_lookup_elem(&processes, process);

	event->counters->count[SF_COUNT_BACKGROUND]++;
	if (share)
		__sync_fetch_and_add(&share->ticks[event->epoch & 1], 1);
}

static __always_inline void fold_tick(struct event *event, struct bpf_perf_event_data *ctx, struct sf_scratch *work,
				      enum sf_count fate)
{
	stack_of(ctx, ENTRY_TICK, event->epoch, work);
	work->sample.now_ns = bpf_ktime_get_boot_ns();
	/* Only now: a record that was looked up before the walk could be another's after it. */
	if (fold(ENTRY_TICK, event->epoch))
		event->counters->count[fate]++;
}

/* Neither idle nor filtered. */
static __always_inline void take_sample(struct event *event, struct bpf_perf_event_data *ctx, __u64 pid_tgid)
{
	__u32 entry = ENTRY_TICK;
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	const struct sf_span *keep;
	struct sf_sample *sample;

	if (!work) {
		count_drop(event, SF_DROP_NO_SCRATCH);
		return;
	}
	sample = &work->sample;
	sample->pid_tgid = pid_tgid;
	sample->kind = SF_KIND_ON_CPU;
	process_of(current_task(), &sample->process);
	sample->source = context_of(event, pid_tgid, &sample->span);
	keep = sample->source || knobs.background_stacks ? &sample->span : NULL;
	close_thread(pid_tgid, event->epoch, keep);
	if (sample->source)
		fold_tick(event, ctx, work, SF_COUNT_IN_SPAN);
	else if (knobs.background_stacks)
		fold_tick(event, ctx, work, SF_COUNT_BACKGROUND);
	else
		count_background(event, &sample->process);
}

SEC("perf_event")
int on_tick(struct bpf_perf_event_data *ctx)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct event event;

	if (!open_event(&event, epoch))
		return 0;
	event.counters->count[SF_COUNT_TICKS]++;
	if (!pid_tgid)
		event.counters->count[SF_COUNT_IDLE]++;
	else if (knobs.filter && !is_target(pid_tgid))
		event.counters->count[SF_COUNT_FILTERED]++;
	else
		take_sample(&event, ctx, pid_tgid);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
