/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One sample becomes one update: of a slot in the thread's record for the span, or, where that cannot be, a message. */
#ifndef SPANFOLD_FOLD_BPF_H
#define SPANFOLD_FOLD_BPF_H

#include "record.bpf.h"

static __always_inline void open_fold(struct sf_fold_head *fold, const struct event *event,
				      const struct sf_sample *sample)
{
	fold->head.type = SF_MSG_FOLD;
	fold->head.source = (__u8)sample->source;
	fold->head.count = 0;
	fold->head.epoch = event->epoch;
	fold->span = sample->span;
	fold->process_start_ns = sample->process.start_ns;
	fold->pid_tgid = sample->pid_tgid;
	fold->first_ns = sample->now_ns;
	fold->last_ns = sample->now_ns;
	fold->on_thread_ns = 0;
	fold->exec_id = sample->process.exec_id;
	fold->stay = 0;
}

/* The sample goes out as a message of its own. */
static __always_inline int send_lone(struct event *event, const struct sf_scratch *work, enum sf_count why)
{
	struct {
		struct sf_fold_head fold;
		struct sf_slot slot;
	} msg;

	open_fold(&msg.fold, event, &work->sample);
	msg.fold.head.count = 1;
	msg.slot.stack_id = work->msg.stack_id;
	msg.slot.count = 1;
	msg.slot.kind = work->sample.kind;
	if (bpf_ringbuf_output(&ring, &msg, sizeof(msg), wakeup_flag())) {
		count_drop(event, refusal(sizeof(msg)));
		return 0;
	}
	count(event, why);
	return 1;
}

/* The span, and the program that ran in it: exec keeps the thread's id. */
static __always_inline bool is_record_of(const struct sf_record *record, const struct sf_sample *sample)
{
	return sf_same_span(&record->fold.span, &sample->span) && record->fold.exec_id == sample->process.exec_id &&
	       record->fold.process_start_ns == sample->process.start_ns;
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
	record->last_ns = work->sample.now_ns;
	if (sf_fold_inline(&record->fold, record->slots, work->msg.stack_id, work->sample.kind) == SF_FOLDED)
		return 1;
	table = record->table ? table_of(record) : take_table(&event, record, work->msg.stack_id);
	if (table && sf_fold_table(table, work->msg.stack_id, work->sample.kind) == SF_FOLDED)
		return 1;
	if (!emit_record(place, now_epoch))
		return 0;
	count(&event, SF_COUNT_ROLLS);
	open_fold(&record->fold, &event, &work->sample);
	return sf_fold_inline(&record->fold, record->slots, work->msg.stack_id, work->sample.kind) == SF_FOLDED;
}

/* One way of the bucket, as the thread of the sample at hand sees it. */
static __always_inline void look_at(__u32 place, __u32 way, __u64 owner, __u32 now_epoch, struct sf_scratch *work)
{
	struct sf_found *found = &work->found;
	struct sf_record *record;

	if (!owner)
		found->spare = way + 1;
	if (owner != work->sample.pid_tgid)
		return;
	record = record_at(place);
	if (!record)
		return;
	/*
	 * A record never spans two flushes, so that each flush holds exactly the samples that its counters count. One
	 * of an earlier flush goes out now; where the ring refuses it, it waits for the sweep and we open another.
	 */
	if (record->fold.head.epoch != now_epoch) {
		if (close_record(place, owner, now_epoch))
			found->spare = way + 1;
		return;
	}
	if (is_record_of(record, &work->sample)) {
		found->own = way + 1;
		return;
	}
	found->others++;
	if (record->last_ns < found->oldest_ns) {
		found->oldest_ns = record->last_ns;
		found->oldest = way + 1;
	}
}

static __always_inline void look(const struct sf_owners *bucket_owners, __u32 bucket, __u32 now_epoch,
				 struct sf_scratch *work)
{
	__u32 way;

	__builtin_memset(&work->found, 0, sizeof(work->found));
	work->found.oldest_ns = ~0ULL;
	for (way = 0; way < SF_BUCKET_WAYS; way++) {
		__u64 owner = *(const volatile __u64 *)&bucket_owners->owner[way];

		look_at(bucket * SF_BUCKET_WAYS + way, way, owner, now_epoch, work);
	}
}

/* Folds into the record at `place`, after opening it where it was free. The owner is looked at again under `busy`. */
static __always_inline int fold_at(struct event *event, volatile __u64 *owner, __u32 place, enum entry entry,
				   struct sf_scratch *work)
{
	struct sf_record *record = record_at(place);
	int folded = 0;
	bool mine;

	if (!record || !try_take(&record->busy))
		return send_lone(event, work, SF_COUNT_LONE_BUSY);
	if (!*owner) {
		open_fold(&record->fold, event, &work->sample);
		record->table = 0;
		*owner = work->sample.pid_tgid;
	}
	mine = *owner == work->sample.pid_tgid && record->fold.head.epoch == event->epoch &&
	       is_record_of(record, &work->sample);
	if (mine)
		folded = fold_into(place, entry, event->epoch);
	give_back(&record->busy);
	return folded ? 1 : send_lone(event, work, mine ? SF_COUNT_LONE_FULL : SF_COUNT_LONE_BUSY);
}

/* Folds the sample in the scratch of `entry`. 1: it is in a record or on its way; 0: it is lost, the reason is counted.
 */
VERIFIED_ONCE fold(__u32 entry, __u32 now_epoch)
{
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	struct sf_owners *bucket_owners;
	struct sf_found *found;
	struct event event;
	__u32 bucket, way;

	if (!work || !open_event(&event, now_epoch))
		return 0;
	bucket = bucket_of(work->sample.pid_tgid);
	bucket_owners = bpf_map_lookup_elem(&owners, &bucket);
	if (!bucket_owners)
		return send_lone(&event, work, SF_COUNT_LONE_CROWD);
	look(bucket_owners, bucket, now_epoch, work);
	found = &work->found;
	if (!found->own && found->others >= SF_THREAD_RECORDS) {
		way = (found->oldest - 1) & (SF_BUCKET_WAYS - 1);
		if (close_record(bucket * SF_BUCKET_WAYS + way, work->sample.pid_tgid, now_epoch))
			found->spare = way + 1;
	}
	way = found->own ? found->own : found->spare;
	if (!way)
		return send_lone(&event, work, SF_COUNT_LONE_CROWD);
	way = (way - 1) & (SF_BUCKET_WAYS - 1);
	return fold_at(&event, &bucket_owners->owner[way], bucket * SF_BUCKET_WAYS + way, entry, work);
}

#endif
