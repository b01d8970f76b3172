/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A record is held against the context map, from outside its thread: what nobody told of, and what lingers, ends. */
#ifndef SPANFOLD_SWEEP_BPF_H
#define SPANFOLD_SWEEP_BPF_H

#include "stay.bpf.h"

/* What it does with a record that it holds, now that the map shows `span` for its thread. 0: something is left. */
static __always_inline int sweep_taken(struct event *event, struct sf_record *record, __u32 place, __u64 owner,
				       const struct sf_span *span, __u64 now_ns)
{
	struct sf_sample sample = { .now_ns = now_ns };
	bool old = record->fold.head.epoch != event->epoch, held = is_held(record, &sample);

	if (held && !old)
		return 1;
	if (record->since_ns && !held && !sf_same_span(&record->fold.span, span)) {
		end_unseen(event, record, owner, now_ns);
		/* From under a nested span it may come back. */
		if (!sf_same_trace(&record->fold.span, span)) {
			record->fold.stay |= SF_STAY_GONE;
			return close_taken(event, record, place);
		}
	}
	if (record->since_ns || (!(record->fold.stay & SF_STAY_GONE) && sf_same_trace(&record->fold.span, span))) {
		if (record->since_ns)
			record->seen_ns = now_ns;
		if (!old)
			return 1;
		sf_stay_cut(record, now_ns);
		if (!emit_record(place, event->epoch))
			return 0;
		record->fold.head.epoch = event->epoch;
		return 1;
	}
	if (!old && sf_elapsed_ns(record->fold.last_ns, now_ns) < SF_LINGER_NS)
		return 1;
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
	if (!read_context(owner, &span))
		__builtin_memset(&span, 0, sizeof(span));
	done = sweep_taken(&event, record, place, owner, &span, now_ns);
	give_back(&record->busy, place);
	return done;
}

#endif
