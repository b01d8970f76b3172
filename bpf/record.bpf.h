/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The records' protocol: find, take, give back, emit, release. A record belongs to one thread's stay in a span. Only
 * that thread opens it; that thread, its exit and the sweep emit and release it. Whoever touches one takes `busy` by
 * exchange first and looks at the owner again afterwards; nobody waits.
 */
#ifndef SPANFOLD_RECORD_BPF_H
#define SPANFOLD_RECORD_BPF_H

#include "emit.bpf.h"

/* A record's place: bucket * SF_BUCKET_WAYS + way. */
static __always_inline struct sf_record *record_at(__u32 place)
{
	return bpf_map_lookup_elem(&records, &place);
}

static __always_inline __u32 bucket_of(__u64 pid_tgid)
{
	return sf_bucket(knobs.seed, pid_tgid, knobs.bucket_mask);
}

/* An exchange orders all that comes before and after it, on every architecture; a plain store of 0 would not. */
static __always_inline bool try_take(__u64 *word)
{
	return __sync_lock_test_and_set(word, 1) == 0;
}

static __always_inline void give_back(__u64 *word)
{
	(void)__sync_lock_test_and_set(word, 0);
}

static __always_inline struct sf_table *table_of(const struct sf_record *record)
{
	__u32 number = record->table - 1;

	return record->table ? bpf_map_lookup_elem(&tables, &number) : NULL;
}

/* How many tables of the pool are looked at before the pool counts as empty. */
#define TABLE_TRIES 8

/* Gives the record a table of its own out of the pool, if one is free. */
static __always_inline struct sf_table *take_table(struct event *event, struct sf_record *record, __u64 stack_id)
{
	__u32 i;

	for (i = 0; i < TABLE_TRIES && i < knobs.table_count; i++) {
		__u32 number = ((__u32)(stack_id >> 40) + i) % knobs.table_count;
		struct sf_table *table = bpf_map_lookup_elem(&tables, &number);

		if (table && try_take(&table->taken)) {
			sf_table_clear(table);
			record->table = number + 1;
			count(event, SF_COUNT_TABLES_TAKEN);
			return table;
		}
	}
	count(event, SF_COUNT_TABLES_SHORT);
	return NULL;
}

static __always_inline bool send_fold(struct sf_fold_head *fold, __u64 last_ns, __u64 most)
{
	__u64 bytes = sizeof(*fold) + fold->head.count * sizeof(struct sf_slot);

	fold->last_ns = last_ns;
	if (bytes > most)
		return false;
	return bpf_ringbuf_output(&ring, fold, bytes, wakeup_flag()) == 0;
}

/* The inline part of an emit. True: there was none, or it went out. */
static __always_inline bool emit_inline(struct sf_record *record)
{
	__u64 most = sizeof(record->fold) + sizeof(record->slots);

	if (record->fold.head.count && !send_fold(&record->fold, record->last_ns, most))
		return false;
	record->fold.head.count = 0;
	return true;
}

/* The table part of an emit. True: there was none, or it went out and the table is back in the pool. */
static __always_inline bool emit_table(struct sf_record *record)
{
	struct sf_table *table = table_of(record);
	__u16 slots;

	if (!table)
		return true;
	slots = table->msg.fold.head.count;
	table->msg.fold = record->fold;
	table->msg.fold.head.count = slots;
	if (slots && !send_fold(&table->msg.fold, record->last_ns, sizeof(table->msg)))
		return false;
	give_back(&table->taken);
	record->table = 0;
	return true;
}

/*
 * Sends what the record holds and empties it; its table goes back to the pool. 0 if the ring refused: what could not be
 * sent is still there, for the next try. The caller holds `busy`.
 */
VERIFIED_ONCE emit_record(__u32 place, __u32 now_epoch)
{
	struct sf_record *record = record_at(place);
	struct event event;

	if (!record || !open_event(&event, now_epoch))
		return 0;
	if (emit_inline(record) && emit_table(record))
		return 1;
	count(&event, SF_COUNT_EMIT_REFUSED);
	return 0;
}

/* Emits the record at `place` and gives it up, if `owner` still owns it. 0: something is left, or somebody is at it. */
VERIFIED_ONCE close_record(__u32 place, __u64 owner, __u32 now_epoch)
{
	__u32 bucket = place / SF_BUCKET_WAYS, way = place % SF_BUCKET_WAYS;
	struct sf_owners *bucket_owners = bpf_map_lookup_elem(&owners, &bucket);
	struct sf_record *record = record_at(place);
	volatile __u64 *owned;
	int emitted = 1;

	if (!record || !bucket_owners || !try_take(&record->busy))
		return 0;
	owned = &bucket_owners->owner[way];
	if (*owned == owner) {
		emitted = emit_record(place, now_epoch);
		if (emitted)
			*owned = 0;
	}
	give_back(&record->busy);
	return emitted;
}

/* Closes all records of a thread but, if `keep` is given, those of its trace. */
static __always_inline void close_thread(__u64 pid_tgid, __u32 now_epoch, const struct sf_span *keep)
{
	__u32 way, bucket = bucket_of(pid_tgid);
	struct sf_owners *bucket_owners = bpf_map_lookup_elem(&owners, &bucket);

	if (!bucket_owners)
		return;
	for (way = 0; way < SF_BUCKET_WAYS; way++) {
		__u32 place = bucket * SF_BUCKET_WAYS + way;
		struct sf_record *record;

		if (bucket_owners->owner[way] != pid_tgid)
			continue;
		record = record_at(place);
		if (record && !(keep && sf_same_trace(&record->fold.span, keep)))
			close_record(place, pid_tgid, now_epoch);
	}
}

/* Closes the record at `place` if it is of an earlier epoch. 0: it is, and something is left of it. */
static __always_inline int sweep_record(__u32 place, __u32 now_epoch)
{
	__u32 bucket = place / SF_BUCKET_WAYS, way = place % SF_BUCKET_WAYS;
	struct sf_owners *bucket_owners = bpf_map_lookup_elem(&owners, &bucket);
	struct sf_record *record = record_at(place);
	__u64 owner;

	if (!bucket_owners || !record)
		return 1;
	owner = *(volatile __u64 *)&bucket_owners->owner[way];
	if (!owner || record->fold.head.epoch == now_epoch)
		return 1;
	return close_record(place, owner, now_epoch);
}

#endif
