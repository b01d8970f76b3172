/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A record is held against the context map, from outside its thread: what nobody told of, and what lingers, ends. */
#ifndef SPANFOLD_SWEEP_BPF_H
#define SPANFOLD_SWEEP_BPF_H

#include "stay.bpf.h"

/* A record of an earlier flush goes on in this one, cut where its span was last known on the thread. 0: refused. */
static __always_inline int carry_over(struct event *event, struct sf_record *record, __u32 place)
{
	if (record->fold.head.epoch == event->epoch)
		return 1;
	sf_stay_cut(record, record->seen_ns);
	if (!emit_record(place, event->epoch))
		return 0;
	record->fold.head.epoch = event->epoch;
	return 1;
}

/* The record of a current span. 0: something is left. */
static __always_inline int sweep_current(struct event *event, struct sf_record *record, __u32 place, __u64 owner,
					 const struct sf_span *shown, __u64 now_ns)
{
	if (sf_same_span(&record->fold.span, shown)) {
		record->seen_ns = now_ns;
		return carry_over(event, record, place);
	}
	if (is_pending(record, owner, now_ns))
		return carry_over(event, record, place);
	end_unseen(event, record, owner, now_ns);
	/* From under a nested span it may come back. */
	if (sf_same_trace(&record->fold.span, shown))
		return carry_over(event, record, place);
	record->fold.stay |= SF_STAY_GONE;
	return close_taken(event, record, place);
}

/* The record of a span that has left its thread, or is covered. 0: something is left. */
static __always_inline int sweep_left_over(struct event *event, struct sf_record *record, __u32 place, __u64 owner,
					   const struct sf_span *shown, __u64 now_ns)
{
	bool gone = record->fold.stay & SF_STAY_GONE, back = sf_same_span(&record->fold.span, shown);

	if (gone ? back && is_pending(record, owner, now_ns) : sf_same_trace(&record->fold.span, shown))
		return carry_over(event, record, place);
	if (record->fold.head.epoch == event->epoch && sf_elapsed_ns(record->fold.last_ns, now_ns) < SF_LINGER_NS)
		return 1;
	/* Somebody missed that it came back, or what became of the span that covered it. */
	if (!gone || back)
		record->fold.stay &= ~(__u32)SF_STAY_END_SEEN;
	record->fold.stay |= SF_STAY_GONE;
	return close_taken(event, record, place);
}

/* Looks again whether the span of the record at `place` is on its thread; emits it if it is of an earlier flush. */
VERIFIED_ONCE sweep_record(__u32 place, __u32 now_epoch)
{
	volatile __u64 *owned = owner_at(place);
	struct sf_record *record;
	struct sf_span span = {};
	struct event event;
	__u64 owner, now_ns;
	int done;

	if (!owned || !open_event(&event, now_epoch))
		return 1;
	owner = *owned;
	if (!owner)
		return 1;
	record = take_record(place, owner);
	if (!record)
		return *owned == owner ? 0 : 1;
	/* Before the look: the span may leave right after that. */
	now_ns = now_boot_ns();
	copy_context(owner, &span);
	if (record->since_ns)
		done = sweep_current(&event, record, place, owner, &span, now_ns);
	else
		done = sweep_left_over(&event, record, place, owner, &span, now_ns);
	give_back(&record->busy, place);
	return done;
}

#endif
