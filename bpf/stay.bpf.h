/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stays of threads in spans: a thread's records are brought to what somebody tells of the thread. The span that the
 * context map shows is current; one of the same trace that it covers is suspended, and comes back; all others are gone.
 * A hook tells of the change as it happens, a sample some time later; what only samples and the sweep tell of is not
 * called exact.
 */
#ifndef SPANFOLD_STAY_BPF_H
#define SPANFOLD_STAY_BPF_H

#include "context.bpf.h"
#include "leave.bpf.h"

/* The span, and the program that ran in it: exec keeps the thread's id. */
static __always_inline bool is_record_of(const struct sf_record *record, const struct sf_sample *sample)
{
	return sample->teller != SF_TELLER_EXIT && sf_same_span(&record->fold.span, &sample->span) &&
	       record->fold.exec_id == sample->process.exec_id &&
	       record->fold.process_start_ns == sample->process.start_ns;
}

/* Which of a thread's records makes room for a fifth: the least. One that has left goes before one that may come back.
 */
static __always_inline __u64 staying_power(const struct sf_record *record)
{
	return is_idle(record) ? record->seen_ns : record->seen_ns | 1ULL << 63;
}

/* A record of the thread for another span than the one that is told of. */
static __always_inline void settle_other(__u32 place, __u32 way, const struct sf_record *record, __u32 now_epoch,
					 struct sf_scratch *work)
{
	const struct sf_sample *sample = &work->sample;
	struct sf_found *found = &work->found;
	__u32 how, gone;

	if (is_held(record, sample)) {
		found->hold = 1;
		return;
	}
	how = manner(record, sample);
	gone = record->fold.stay & SF_STAY_GONE;
	if (record->fold.head.epoch != now_epoch && (gone || (how & LEAVE_GONE)))
		how |= LEAVE_CLOSE;
	if (record->since_ns || (how & LEAVE_CLOSE) || (!gone && (how & LEAVE_GONE))) {
		if (leave_record(place, sample->pid_tgid, sample->now_ns, now_epoch, how) && (how & LEAVE_CLOSE)) {
			found->spare = way + 1;
			return;
		}
	}
	if (record->fold.head.epoch != now_epoch && !record->since_ns)
		renew_record(place, sample->pid_tgid, sample->now_ns, now_epoch);
	if (is_idle(record))
		found->idle = way + 1;
	found->others++;
	if (staying_power(record) < found->least) {
		found->least = staying_power(record);
		found->oldest = way + 1;
	}
}

/* A record of the thread for the very span that is told of. */
static __always_inline void settle_own(__u32 place, __u32 way, const struct sf_record *record, __u32 now_epoch,
				       struct sf_scratch *work)
{
	const struct sf_sample *sample = &work->sample;
	struct sf_found *found = &work->found;
	int renewed = RENEWED;

	if (!record->since_ns && !(record->fold.stay & SF_STAY_GONE) && !is_held(record, sample))
		found->left_ns = record->seen_ns;
	/*
	 * A record never spans two flushes, so that each flush holds exactly the samples that its counters count. Where
	 * the ring refuses one of an earlier flush, we open another; not where it is in use, since it may be current.
	 */
	if (record->fold.head.epoch != now_epoch)
		renewed = renew_record(place, sample->pid_tgid, sample->now_ns, now_epoch);
	if (renewed == IN_USE)
		found->hold = 1;
	else if (renewed == REFUSED)
		found->refused = record->fold.stay & SF_STAY_GONE ? found->refused : way + 1;
	else if (!found->own || record->since_ns || record->seen_ns > found->own_ns) {
		/* One that was given up, and has gone out since, must not become current beside its successor. */
		found->own = way + 1;
		found->own_ns = record->since_ns ? ~0ULL : record->seen_ns;
	}
}

/* One way of the bucket, as the thread at hand sees it. */
static __always_inline void settle_way(__u32 place, __u32 way, __u64 owner, __u32 now_epoch, struct sf_scratch *work)
{
	const struct sf_sample *sample = &work->sample;
	const struct sf_record *record;

	if (!owner)
		work->found.spare = way + 1;
	record = record_at(place);
	if (!owner || !record)
		return;
	if (owner != sample->pid_tgid) {
		if (is_idle(record))
			work->found.idle = way + 1;
		return;
	}
	if (is_record_of(record, sample))
		settle_own(place, way, record, now_epoch, work);
	else
		settle_other(place, way, record, now_epoch, work);
}

/* The thread came back to its span from under nested ones: those ended. */
static __always_inline void end_nested(const struct sf_owners *bucket_owners, __u32 bucket, __u32 now_epoch,
				       const struct sf_scratch *work)
{
	const struct sf_sample *sample = &work->sample;
	__u32 way;

	for (way = 0; way < SF_BUCKET_WAYS; way++) {
		__u32 how = LEAVE_GONE | (sf_is_look(sample) ? LEAVE_DOUBT : 0);
		__u32 place = bucket * SF_BUCKET_WAYS + way;
		const struct sf_record *record;

		if (way + 1 == work->found.own ||
		    *(const volatile __u64 *)&bucket_owners->owner[way] != sample->pid_tgid)
			continue;
		record = record_at(place);
		if (!record || record->since_ns || record->seen_ns < work->found.left_ns)
			continue;
		if (record->switches != sample->switches)
			how |= LEAVE_SWITCHED;
		leave_record(place, sample->pid_tgid, sample->now_ns, now_epoch, how);
	}
}

/* When the stay begins that is told of: a sample may come after that, which another thread's note then tells. */
static __always_inline __u64 begin_of(const struct sf_record *record, const struct sf_sample *sample)
{
	const struct sf_note *note = note_of(sample->pid_tgid);

	return note && begins_stay(note, record, sample) ? note->ns : sample->now_ns;
}

/* A stay begins in the record at hand. Stays are listed one by one, unless they are close. */
static __always_inline void begin_stay(struct sf_record *record, __u32 place, const struct sf_sample *sample,
				       __u32 now_epoch)
{
	__u64 begin_ns = begin_of(record, sample);
	bool seen = begin_ns != sample->now_ns;

	/* Where the ring refuses, the two become one. */
	if (knobs.span_times && sf_has_stay(record) && sf_elapsed_ns(record->fold.last_ns, begin_ns) >= SF_LINGER_NS)
		emit_record(place, now_epoch);
	/* A hook that finds the span in the map already has missed its begin, or its record of an earlier flush. */
	if (sample->teller == SF_TELLER_HOOK)
		seen = !sf_same_span(&sample->old, &sample->span);
	sf_stay_begin(record, begin_ns, sample->switches, seen);
}

/* The thread's own record becomes current, if it is not. 0: somebody is at it. */
VERIFIED_ONCE resume_record(__u32 place, __u32 entry, __u32 now_epoch)
{
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	const struct sf_sample *sample;
	struct sf_record *record;
	struct event event;

	if (!work || !open_event(&event, now_epoch))
		return 0;
	sample = &work->sample;
	record = take_record(place, sample->pid_tgid);
	if (!record) {
		count_in_use(&event, place, sample->pid_tgid);
		return 0;
	}
	if (!record->since_ns && !is_held(record, sample))
		begin_stay(record, place, sample, now_epoch);
	give_back(&record->busy, place);
	return 1;
}

/* Gives up the record at `place` if its span has left its thread for good. 1: done. */
VERIFIED_ONCE close_idle(__u32 place, __u32 now_epoch)
{
	volatile __u64 *owned = owner_at(place);
	struct sf_record *record;
	struct event event;
	int done = 0;

	if (!owned || !open_event(&event, now_epoch))
		return 0;
	record = take_record(place, *owned);
	if (!record)
		return 0;
	if (*owned && is_idle(record))
		done = close_taken(&event, record, place);
	give_back(&record->busy, place);
	return done;
}

/* Where the thread's new record goes: a free place, else that of its oldest or of anybody's idle one. 0: nowhere. */
static __always_inline __u32 make_room(struct sf_found *found, __u32 bucket, const struct sf_sample *sample,
				       __u32 now_epoch)
{
	__u32 first = bucket * SF_BUCKET_WAYS, way;

	if (found->others >= SF_THREAD_RECORDS) {
		way = (found->oldest - 1) & (SF_BUCKET_WAYS - 1);
		if (leave_record(first + way, sample->pid_tgid, sample->now_ns, now_epoch, LEAVE_CLOSE))
			found->spare = way + 1;
	}
	if (!found->spare && found->idle) {
		way = (found->idle - 1) & (SF_BUCKET_WAYS - 1);
		if (close_idle(first + way, now_epoch))
			found->spare = way + 1;
	}
	return found->spare;
}

/* Opens a record for the span at hand in the free place that was found. 1: done, and the thread owns it. */
VERIFIED_ONCE open_record(__u32 place, __u32 entry, __u32 now_epoch)
{
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	struct sf_record *record = record_at(place);
	volatile __u64 *owned = owner_at(place);
	int opened = 0;

	if (!work || !record || !owned || !try_take(&record->busy, place))
		return 0;
	if (!*owned) {
		open_fold(&record->fold, &work->sample, now_epoch);
		record->table = 0;
		record->sampled = 0;
		record->seen_ns = 0;
		record->born_ns = work->sample.now_ns;
		begin_stay(record, place, &work->sample, now_epoch);
		*owned = work->sample.pid_tgid;
		opened = 1;
	}
	give_back(&record->busy, place);
	return opened;
}

/* The span at hand becomes the thread's current one. */
static __always_inline void make_current(struct sf_scratch *work, const struct sf_owners *bucket_owners, __u32 bucket,
					 __u32 entry, __u32 now_epoch)
{
	const struct sf_sample *sample = &work->sample;
	struct sf_found *found = &work->found;
	__u32 first = bucket * SF_BUCKET_WAYS, way = (found->own - 1) & (SF_BUCKET_WAYS - 1);
	const struct sf_record *record = record_at(first + way);
	__u64 owner;

	if (found->own && record) {
		if (!record->since_ns && !found->hold)
			resume_record(first + way, entry, now_epoch);
		/* It had left, and somebody may have closed it since we looked; somebody else may even be in its place.
		 */
		owner = *(const volatile __u64 *)&bucket_owners->owner[way];
		if (owner != sample->pid_tgid)
			found->own = 0;
		if (!owner)
			found->spare = way + 1;
	}
	if (!found->own && !found->hold && make_room(found, bucket, sample, now_epoch)) {
		way = (found->spare - 1) & (SF_BUCKET_WAYS - 1);
		if (open_record(first + way, entry, now_epoch))
			found->own = way + 1;
	}
	if (found->own && found->refused)
		give_up_record(first + ((found->refused - 1) & (SF_BUCKET_WAYS - 1)), sample->pid_tgid);
	if (found->left_ns && !found->hold)
		end_nested(bucket_owners, bucket, now_epoch, work);
}

/* Is there a record to be opened for what the teller tells of? */
static __always_inline bool wants_record(const struct sf_sample *sample)
{
	return sample->span.span_id || (knobs.background_stacks && sample->teller == SF_TELLER_SAMPLE);
}

/* The span at hand has no record, so its time is not known from here on. */
static __always_inline void count_unopened(struct event *event, const struct sf_scratch *work)
{
	const struct sf_found *found = &work->found;

	if (!found->hold && !found->refused && !found->spare)
		count(event, SF_COUNT_STAY_CROWD);
	else if (work->sample.teller == SF_TELLER_HOOK)
		count(event, SF_COUNT_BUSY);
}

/*
 * Brings the records of the thread in the scratch of `entry` to what is told there. Afterwards work->found.own is the
 * record of its span; 0: it has none, or there was no room for one.
 */
VERIFIED_ONCE settle(__u32 entry, __u32 now_epoch)
{
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	struct sf_owners *bucket_owners;
	struct event event;
	__u32 bucket, way;

	if (!work || !open_event(&event, now_epoch))
		return 0;
	__builtin_memset(&work->found, 0, sizeof(work->found));
	work->found.least = ~0ULL;
	bucket = bucket_of(work->sample.pid_tgid);
	bucket_owners = bpf_map_lookup_elem(&owners, &bucket);
	if (!bucket_owners)
		return 0;
	for (way = 0; way < SF_BUCKET_WAYS; way++) {
		__u64 owner = *(const volatile __u64 *)&bucket_owners->owner[way];

		settle_way(bucket * SF_BUCKET_WAYS + way, way, owner, now_epoch, work);
	}
	if (wants_record(&work->sample)) {
		make_current(work, bucket_owners, bucket, entry, now_epoch);
		if (!work->found.own)
			count_unopened(&event, work);
	}
	drop_note(&work->sample, work->found.hold);
	return 0;
}

/* Is this what the records take for the thread's current span? Zeros: none. */
static __always_inline bool is_known(__u64 pid_tgid, const struct sf_span *span)
{
	__u32 way, bucket = bucket_of(pid_tgid);
	const struct sf_owners *bucket_owners = bpf_map_lookup_elem(&owners, &bucket);

	if (!bucket_owners)
		return true;
	for (way = 0; way < SF_BUCKET_WAYS; way++) {
		const struct sf_record *record;

		if (*(const volatile __u64 *)&bucket_owners->owner[way] != pid_tgid)
			continue;
		record = record_at(bucket * SF_BUCKET_WAYS + way);
		if (record && record->since_ns)
			return sf_same_span(&record->fold.span, span);
	}
	return !span->span_id;
}

/*
 * Before a hook or an exit is settled: where the map has held another span until now than the records know of, changes
 * were missed, or made by other threads, and the records are brought to that first, as of a nanosecond ago: a stay has
 * at least that. 1: so they were.
 */
VERIFIED_ONCE catch_up(__u32 entry, __u32 now_epoch)
{
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	struct sf_sample *sample;
	struct sf_span span;
	__u32 teller;

	if (!work)
		return 0;
	sample = &work->sample;
	if (is_known(sample->pid_tgid, &sample->old))
		return 0;
	span = sample->span;
	teller = sample->teller;
	sample->span = sample->old;
	sample->teller = SF_TELLER_LOOK;
	sample->now_ns--;
	settle(entry, now_epoch);
	sample->now_ns++;
	sample->span = span;
	sample->teller = teller;
	return 1;
}

/* A change that a hook, or the exit of a thread, tells of. */
static __always_inline void settle_change(__u32 entry, __u32 now_epoch)
{
	catch_up(entry, now_epoch);
	settle(entry, now_epoch);
}

/* How long the thread has been carrying the span, as far as its record knows. */
static __always_inline __u64 age_of(__u64 pid_tgid, const struct sf_span *span, __u64 now_ns)
{
	__u32 way, bucket = bucket_of(pid_tgid);
	const struct sf_owners *bucket_owners = bpf_map_lookup_elem(&owners, &bucket);

	if (!bucket_owners)
		return 0;
	for (way = 0; way < SF_BUCKET_WAYS; way++) {
		const struct sf_record *record = record_at(bucket * SF_BUCKET_WAYS + way);

		if (record && bucket_owners->owner[way] == pid_tgid && sf_same_span(&record->fold.span, span))
			return now_ns - record->born_ns;
	}
	return 0;
}

#endif
