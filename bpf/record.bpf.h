/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The records' protocol: find, take, give back, emit, close. A record belongs to one thread in one span. Only that
 * thread opens it; that thread, its exit and the sweep emit and close it. Whoever touches one takes `busy` first and
 * looks at the owner again afterwards; nobody waits.
 */
#ifndef SPANFOLD_RECORD_BPF_H
#define SPANFOLD_RECORD_BPF_H

#include "emit.bpf.h"
#include "take.bpf.h"

/* A record's place: bucket * SF_BUCKET_WAYS + way. */
static __always_inline struct sf_record *record_at(__u32 place)
{
	return bpf_map_lookup_elem(&records, &place);
}

/* Where the owner of the record at `place` stands. */
static __always_inline volatile __u64 *owner_at(__u32 place)
{
	__u32 bucket = place / SF_BUCKET_WAYS;
	struct sf_owners *bucket_owners = bpf_map_lookup_elem(&owners, &bucket);

	return bucket_owners ? &bucket_owners->owner[place % SF_BUCKET_WAYS] : NULL;
}

static __always_inline __u32 bucket_of(__u64 pid_tgid)
{
	return sf_bucket(knobs.seed, pid_tgid, knobs.bucket_mask);
}

/* Takes the record at `place` if `owner` owns it; NULL: somebody is at it, or it is another's by now. */
static __always_inline struct sf_record *take_record(__u32 place, __u64 owner)
{
	struct sf_record *record = record_at(place);
	volatile __u64 *owned = owner_at(place);

	if (!record || !owned || !try_take(&record->busy, place))
		return NULL;
	if (*owned == owner)
		return record;
	give_back(&record->busy, place);
	return NULL;
}

static __always_inline struct sf_table *table_of(const struct sf_record *record)
{
	__u32 number = record->table - 1;

	return record->table ? bpf_map_lookup_elem(&tables, &number) : NULL;
}

/* Keys of tables lie behind those of records. */
static __always_inline __u32 table_key(__u32 number)
{
	return 1U << 31 | number;
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

		if (table && try_take(&table->taken, table_key(number))) {
			sf_table_clear(table);
			record->table = (__u16)(number + 1);
			count(event, SF_COUNT_TABLES_TAKEN);
			return table;
		}
	}
	count(event, SF_COUNT_TABLES_SHORT);
	return NULL;
}

static __always_inline void open_fold(struct sf_fold_head *fold, const struct sf_sample *sample, __u32 now_epoch)
{
	fold->head.type = SF_MSG_FOLD;
	fold->head.source = (__u8)sample->source;
	fold->head.count = 0;
	fold->head.epoch = now_epoch;
	fold->span = sample->span;
	fold->process_start_ns = sample->process.start_ns;
	fold->pid_tgid = sample->pid_tgid;
	fold->first_ns = sample->now_ns;
	fold->last_ns = sample->now_ns;
	fold->on_thread_ns = 0;
	fold->exec_id = sample->process.exec_id;
	fold->stay = 0;
}

static __always_inline bool send_fold(struct sf_fold_head *fold, __u64 most)
{
	__u64 bytes = sizeof(*fold) + fold->head.count * sizeof(struct sf_slot);

	if (bytes > most)
		return false;
	return bpf_ringbuf_output(&ring, fold, bytes, wakeup_flag()) == 0;
}

/* The inline part of an emit, with the stay. True: there was none, or it went out. */
static __always_inline bool emit_inline(struct sf_record *record)
{
	__u64 most = sizeof(record->fold) + sizeof(record->slots);

	if (!record->fold.head.count && !(knobs.span_times && (sf_has_stay(record) || sf_has_end(record))))
		return true;
	if (!send_fold(&record->fold, most))
		return false;
	record->fold.head.count = 0;
	sf_stay_told(record);
	return true;
}

/* The table part of an emit, without time. True: there was none, or it went out and the table is back in the pool. */
static __always_inline bool emit_table(struct sf_record *record)
{
	struct sf_table *table = table_of(record);
	__u16 slots;

	if (!table)
		return true;
	slots = table->msg.fold.head.count;
	table->msg.fold = record->fold;
	table->msg.fold.on_thread_ns = 0;
	table->msg.fold.head.count = slots;
	if (slots && !send_fold(&table->msg.fold, sizeof(table->msg)))
		return false;
	give_back(&table->taken, table_key(record->table - 1));
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

/* Emits the record and gives it up; 0: something is left of it. The caller holds `busy`, and gives it back. */
static __always_inline int close_taken(struct event *event, struct sf_record *record, __u32 place)
{
	volatile __u64 *owned = owner_at(place);

	if (!owned || !emit_record(place, event->epoch))
		return 0;
	if (!record->sampled)
		count(event, SF_COUNT_UNSAMPLED);
	*owned = 0;
	return 1;
}

#endif
