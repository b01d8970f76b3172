/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How spans leave threads: whether an end was seen, whether it is for good, and what becomes of the record. */
#ifndef SPANFOLD_LEAVE_BPF_H
#define SPANFOLD_LEAVE_BPF_H

#include "note.bpf.h"

/*
 * How long the map may take to show what a hook told, at most: in between a thread is preempted, or its CPU taken away.
 * Where no hook was missed it is some 100 ns.
 */
#define HOLD_NS 1000000000

/* How a span leaves a thread: bits. */
enum leave {
	LEAVE_SEEN = 1, /* at this instant */
	LEAVE_GONE = 2, /* for good, and not only under a nested span */
	LEAVE_CLOSE = 4, /* its record is emitted and given up */
	LEAVE_SWITCHED = 8, /* the thread left its CPU since the stay began */
	LEAVE_DOUBT = 16, /* what covered it went unseen, so it may have been back in between */
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
	if (!(record->fold.stay & SF_STAY_GONE)) {
		if (how & LEAVE_SWITCHED)
			record->fold.stay |= SF_STAY_SWITCHED;
		if (how & LEAVE_DOUBT)
			record->fold.stay &= ~(__u32)SF_STAY_END_SEEN;
	}
	if (record->since_ns && (how & LEAVE_SEEN))
		sf_stay_end(record, now_ns, 1);
	else if (record->since_ns)
		end_unseen(&event, record, owner, now_ns);
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

/*
 * Has a hook changed this record so lately that the map may still show what was before? Not if another thread has
 * changed the entry since.
 */
static __always_inline bool is_pending(const struct sf_record *record, __u64 owner, __u64 now_ns)
{
	const struct sf_note *note = note_of(owner);
	__u64 told_ns = 0;

	if (record->since_ns)
		told_ns = note && ends_stay(note, record, now_ns) ? 0 : record->begun_ns;
	else if (record->fold.stay & SF_STAY_END_SEEN)
		told_ns = record->fold.last_ns;
	return told_ns && sf_elapsed_ns(told_ns, now_ns) < HOLD_NS;
}

/* A sample that the change has not reached yet does not correct its hook: in between the thread is in the kernel. */
static __always_inline bool is_held(const struct sf_record *record, const struct sf_sample *sample)
{
	return sample->teller == SF_TELLER_SAMPLE && sample->in_kernel &&
	       is_pending(record, sample->pid_tgid, sample->now_ns);
}

/* How the thread's current span X leaves it, now that another one, or none, is told of. */
static __always_inline __u32 manner(const struct sf_record *record, const struct sf_sample *sample)
{
	bool exits = sample->teller == SF_TELLER_EXIT;
	__u32 how = 0;

	if (!sf_is_look(sample) && sf_same_span(&sample->old, &record->fold.span))
		how |= LEAVE_SEEN;
	if (sf_is_look(sample) && !record->since_ns)
		how |= LEAVE_DOUBT;
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

#endif
