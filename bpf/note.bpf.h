/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Notes that threads leave for one another: whoever changes another thread's entry must not touch its records, so it
 * writes down what it did. The thread's next event acts on that and throws it away: later it would be no news.
 */
#ifndef SPANFOLD_NOTE_BPF_H
#define SPANFOLD_NOTE_BPF_H

#include "record.bpf.h"

/* Who looks within this time after a note may still see what was before: a note is left just before its change. */
#define NOTE_SLACK_NS 50000

static __always_inline const struct sf_note *note_of(__u64 pid_tgid)
{
	return notes_left ? bpf_map_lookup_elem(&notes, &pid_tgid) : NULL;
}

static __always_inline bool has_record(__u64 pid_tgid)
{
	__u32 way, bucket = bucket_of(pid_tgid);
	const struct sf_owners *bucket_owners = bpf_map_lookup_elem(&owners, &bucket);

	if (!bucket_owners)
		return false;
	for (way = 0; way < SF_BUCKET_WAYS; way++)
		if (*(const volatile __u64 *)&bucket_owners->owner[way] == pid_tgid)
			return true;
	return false;
}

/*
 * Of an entry that goes, only threads with records need to know. Most entries that are evicted are of threads that are
 * long dead: their notes would fill the map, since nobody is left to throw them away.
 */
static __always_inline void leave_note(__u64 pid_tgid, const struct sf_note *note)
{
	if (note->span.span_id || has_record(pid_tgid)) {
		bpf_map_update_elem(&notes, &pid_tgid, note, BPF_ANY);
		notes_left = 1;
	} else if (notes_left) {
		bpf_map_delete_elem(&notes, &pid_tgid);
	}
}

/*
 * Whether the note tells when the current span of the record left its thread: the change took it away, and nobody has
 * seen it there since, but for who looked just before the change took effect.
 */
static __always_inline bool ends_stay(const struct sf_note *note, const struct sf_record *record, __u64 now_ns)
{
	return note->ns >= record->since_ns && note->ns <= now_ns && record->seen_ns <= note->ns + NOTE_SLACK_NS &&
	       sf_same_span(&note->old, &record->fold.span) && !sf_same_span(&note->span, &record->fold.span);
}

/* Whether the note tells when the stay began that a sample tells of. */
static __always_inline bool begins_stay(const struct sf_note *note, const struct sf_record *record,
					const struct sf_sample *sample)
{
	return sf_is_look(sample) && note->ns >= record->seen_ns && note->ns < sample->now_ns &&
	       sf_same_span(&note->span, &sample->span);
}

/* Is the note still to be acted on: the change has not reached this look at the map, or a hook held the sample back? */
static __always_inline bool is_early(const struct sf_note *note, const struct sf_sample *sample, bool hold)
{
	if (sf_same_span(&sample->span, &note->old) && sample->now_ns - note->ns < NOTE_SLACK_NS)
		return true;
	return hold && sf_same_span(&sample->span, &note->span);
}

/* The thread's event is settled, and with it what the note told. */
static __always_inline void drop_note(const struct sf_sample *sample, bool hold)
{
	const struct sf_note *note = note_of(sample->pid_tgid);

	if (!note || note->ns > sample->now_ns || (sf_is_look(sample) && is_early(note, sample, hold)))
		return;
	bpf_map_delete_elem(&notes, &sample->pid_tgid);
}

#endif
