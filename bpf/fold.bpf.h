/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One sample becomes one update: of a slot in the thread's record for the span, or, where that cannot be, a message. */
#ifndef SPANFOLD_FOLD_BPF_H
#define SPANFOLD_FOLD_BPF_H

#include "stay.bpf.h"

/* The sample goes out as a message of its own. A function of its own for its large frame. */
VERIFIED_ONCE send_one(__u32 entry, __u32 now_epoch)
{
	struct {
		struct sf_fold_head fold;
		struct sf_slot slot;
	} msg;
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	struct event event;

	if (!work || !open_event(&event, now_epoch))
		return 0;
	open_fold(&msg.fold, &work->sample, now_epoch);
	msg.fold.head.count = 1;
	msg.slot.stack_id = work->msg.stack_id;
	msg.slot.count = 1;
	msg.slot.kind = work->sample.kind;
	if (bpf_ringbuf_output(&ring, &msg, sizeof(msg), wakeup_flag())) {
		count_drop(&event, refusal(sizeof(msg)));
		return 0;
	}
	return 1;
}

static __always_inline int send_lone(struct event *event, __u32 entry, enum sf_count why)
{
	if (!send_one(entry, event->epoch))
		return 0;
	count(event, why);
	return 1;
}

/* Into the record's slots, its table, or both anew after a roll. 0: full, and the ring would not take it. */
VERIFIED_ONCE fold_into(__u32 place, __u32 entry, __u32 now_epoch)
{
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	struct sf_record *record = record_at(place);
	struct sf_table *table;
	struct event event;

	if (!work || !record || !open_event(&event, now_epoch))
		return 0;
	record->sampled = 1;
	if (record->since_ns)
		record->seen_ns = work->sample.now_ns;
	if (sf_fold_inline(&record->fold, record->slots, work->msg.stack_id, work->sample.kind) == SF_FOLDED)
		return 1;
	table = record->table ? table_of(record) : take_table(&event, record, work->msg.stack_id);
	if (table && sf_fold_table(table, work->msg.stack_id, work->sample.kind) == SF_FOLDED)
		return 1;
	sf_stay_cut(record, work->sample.now_ns);
	if (!emit_record(place, now_epoch))
		return 0;
	count(&event, SF_COUNT_ROLLS);
	return sf_fold_inline(&record->fold, record->slots, work->msg.stack_id, work->sample.kind) == SF_FOLDED;
}

/* Folds into the record at `place`, if it still is the thread's for this span and flush: that is looked at under
 * `busy`. */
static __always_inline int fold_at(struct event *event, __u32 place, __u32 entry, struct sf_scratch *work)
{
	struct sf_record *record = take_record(place, work->sample.pid_tgid);
	int folded = 0;
	bool mine;

	if (!record)
		return send_lone(event, entry, SF_COUNT_LONE_BUSY);
	mine = record->fold.head.epoch == event->epoch && is_record_of(record, &work->sample);
	if (mine)
		folded = fold_into(place, entry, event->epoch);
	give_back(&record->busy, place);
	return folded ? 1 : send_lone(event, entry, mine ? SF_COUNT_LONE_FULL : SF_COUNT_LONE_BUSY);
}

/*
 * Folds the sample in the scratch of `entry`, after bringing the thread's records to what it tells. 1: it is in a
 * record or on its way; 0: it is lost, the reason is counted.
 */
VERIFIED_ONCE fold(__u32 entry, __u32 now_epoch)
{
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	struct event event;
	__u32 place;

	if (!work || !open_event(&event, now_epoch))
		return 0;
	settle(entry, now_epoch);
	if (!work->found.own)
		return send_lone(&event, entry, work->found.hold ? SF_COUNT_LONE_BUSY : SF_COUNT_LONE_CROWD);
	place = bucket_of(work->sample.pid_tgid) * SF_BUCKET_WAYS + ((work->found.own - 1) & (SF_BUCKET_WAYS - 1));
	return fold_at(&event, place, entry, work);
}

#endif
