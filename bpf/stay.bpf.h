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
#include "note.bpf.h"

/* How a span leaves a thread: bits. */
enum leave {
	LEAVE_SEEN = 1, /* at this instant */
	LEAVE_GONE = 2, /* for good, and not only under a nested span */
	LEAVE_CLOSE = 4, /* its record is emitted and given up */
	LEAVE_SWITCHED = 8, /* the thread left its CPU since the stay began */
};

/*
 * When the stay ended that nobody in this thread saw ending: another thread may have left a note, since it changed this
 * one's entry. Otherwise it is only known until when it went on.
 */
static __always_inline void end_unseen(struct event *event, struct sf_record *record, __u64 owner, __u64 now_ns)
{
	const struct sf_note *note = note_of(owner);

	if (note && ends_stay(note, record, now_ns)) {
		sf_stay_end(record, note->ns, !note->evicted);
		return;
	}
	sf_stay_end(record, record->seen_ns, 0);
	count(event, SF_COUNT_UNSEEN_ENDS);
}

/* A stay could not begin or end, if the record still is the owner's. */
static __always_inline void count_in_use(struct event *event, __u32 place, __u64 owner)
{
	const volatile __u64 *owned = owner_at(place);

	if (owned && *owned == owner)
		count(event, SF_COUNT_BUSY);
}

/* The span of the record at `place` leaves the thread `owner`, as `how` says. 0: not done, or something is left. */
VERIFIED_ONCE leave_record(__u32 place, __u64 owner, __u64 now_ns, __u32 now_epoch, __u32 how)
{
	struct sf_record *record;
	struct event event;
	int done = 1;

	if (!open_event(&event, now_epoch))
		return 0;
	record = take_record(place, owner);
	if (!record) {
		count_in_use(&event, place, owner);
		return 0;
	}
	if (record->since_ns) {
		if (how & LEAVE_SWITCHED)
			record->fold.stay |= SF_STAY_SWITCHED;
		if (how & LEAVE_SEEN)
			sf_stay_end(record, now_ns, 1);
		else
			end_unseen(&event, record, owner, now_ns);
	}
	if (how & LEAVE_GONE)
		record->fold.stay |= SF_STAY_GONE;
	if (how & LEAVE_CLOSE)
		done = close_taken(&event, record, place);
	give_back(&record->busy, place);
	return done;
}

/* What came of a record of an earlier flush. */
enum renewed {
	RENEWED = 1,
	REFUSED = 0, /* by the ring */
	IN_USE = -1,
};

/*
 * Emits the record at `place` into its flush and takes it into the one of `now_epoch`; a stay that is known to go on is
 * cut at `now_ns`. Where the ring refuses, the record stays in its flush.
 */
VERIFIED_ONCE renew_record(__u32 place, __u64 owner, __u64 now_ns, __u32 now_epoch)
{
	struct sf_record *record = take_record(place, owner);
	int renewed = REFUSED;

	if (!record)
		return IN_USE;
	sf_stay_cut(record, now_ns);
	if (emit_record(place, now_epoch)) {
		record->fold.head.epoch = now_epoch;
		renewed = RENEWED;
	}
	give_back(&record->busy, place);
	return renewed;
}

/* The span at hand goes on in another record: this one waits for the sweep, and its end is none of the span. */
static __always_inline void give_up_record(__u32 place, __u64 owner)
{
	struct sf_record *record = take_record(place, owner);

	if (!record)
		return;
	record->since_ns = 0;
	record->fold.stay = (record->fold.stay & ~(__u32)SF_STAY_END_SEEN) | SF_STAY_GONE;
	give_back(&record->busy, place);
}

/* The span, and the program that ran in it: exec keeps the thread's id. */
static __always_inline bool is_record_of(const struct sf_record *record, const struct sf_sample *sample)
{
	return sample->teller != SF_TELLER_EXIT && sf_same_span(&record->fold.span, &sample->span) &&
	       record->fold.exec_id == sample->process.exec_id &&
	       record->fold.process_start_ns == sample->process.start_ns;
}

/* Has a hook changed this record's state so lately that the map may still show what was before? */
static __always_inline bool is_held(const struct sf_record *record, const struct sf_sample *sample)
{
	if (sample->teller != SF_TELLER_SAMPLE)
		return false;
	if (record->since_ns)
		return record->begun_ns && sf_elapsed_ns(record->begun_ns, sample->now_ns) < HOLD_NS;
	return (record->fold.stay & SF_STAY_END_SEEN) && sf_elapsed_ns(record->fold.last_ns, sample->now_ns) < HOLD_NS;
}

/* How the thread's current span X leaves it, now that another one, or none, is told of. */
static __always_inline __u32 manner(const struct sf_record *record, const struct sf_sample *sample)
{
	bool exits = sample->teller == SF_TELLER_EXIT;
	__u32 how = 0;

	/* Where the map holds another span than the one that we know of, the hook has missed the change to it. */
	if (sample->teller != SF_TELLER_SAMPLE && sf_same_span(&sample->old, &record->fold.span))
		how |= LEAVE_SEEN;
	if (record->switches != sample->switches)
		how |= LEAVE_SWITCHED;
	if (exits || !sf_same_trace(&record->fold.span, &sample->span))
		how |= LEAVE_GONE | (sample->span.span_id || exits ? LEAVE_CLOSE : 0);
	return how;
}

/* Has its span left its thread for good? */
static __always_inline bool is_idle(const struct sf_record *record)
{
	return !record->since_ns && (record->fold.stay & SF_STAY_GONE);
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

	/* The map held another span until now: the change to it, and back, has been missed. */
	if (record->since_ns && sample->teller == SF_TELLER_HOOK && !sf_same_span(&sample->old, &sample->span))
		leave_record(place, sample->pid_tgid, sample->now_ns, now_epoch,
			     record->switches != sample->switches ? LEAVE_SWITCHED : 0);
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
		__u32 place = bucket * SF_BUCKET_WAYS + way;
		const struct sf_record *record;

		if (way + 1 == work->found.own ||
		    *(const volatile __u64 *)&bucket_owners->owner[way] != sample->pid_tgid)
			continue;
		record = record_at(place);
		if (record && !record->since_ns && record->seen_ns >= work->found.left_ns)
			leave_record(place, sample->pid_tgid, sample->now_ns, now_epoch, LEAVE_GONE);
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
		if (!record->since_ns)
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
	if (found->left_ns)
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
