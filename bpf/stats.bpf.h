/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters of this CPU in the bank of one epoch. */
#ifndef SPANFOLD_STATS_BPF_H
#define SPANFOLD_STATS_BPF_H

#include "maps.bpf.h"

/* What one event carries with it: its epoch, read once, and the bank that belongs to it. */
struct event {
	__u32 epoch;
	struct sf_counters *counters;
};

static __always_inline bool open_event(struct event *event, __u32 now_epoch)
{
	__u32 bank = now_epoch & 1;

	event->epoch = now_epoch;
	event->counters = bpf_map_lookup_elem(&counters, &bank);
	return event->counters;
}

/*
 * Atomic, because a tick may interrupt any other program of ours between load and store. The tick's own fates need no
 * atomic: nothing interrupts a tick to count one.
 */
static __always_inline void count(struct event *event, enum sf_count what)
{
	__sync_fetch_and_add(&event->counters->count[what], 1);
}

/* What our programs cost is told from every 16th run of each, by the count of its runs. 0: not this one. */
static __always_inline __u64 begin_watch(struct event *event, enum sf_count runs)
{
	return event->counters->count[runs] % 16 ? 0 : bpf_ktime_get_ns();
}

static __always_inline void end_watch(struct event *event, __u64 begin_ns)
{
	if (begin_ns)
		__sync_fetch_and_add(&event->counters->count[SF_COUNT_SPENT_NS], 16 * (bpf_ktime_get_ns() - begin_ns));
}

static __always_inline void count_drop(struct event *event, enum sf_drop reason)
{
	event->counters->drop[reason]++;
}

#endif
