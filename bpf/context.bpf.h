/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which span is this thread in? Asks the sources one after the other; the pinned map is the first of several. */
#ifndef SPANFOLD_CONTEXT_BPF_H
#define SPANFOLD_CONTEXT_BPF_H

#include "knobs.bpf.h"
#include "stats.bpf.h"

/*
 * The map's elements are preallocated: one that is evicted on another CPU can hold another thread's span before we have
 * copied it. So the copy counts only if the same element still answers for this thread afterwards.
 */
static __always_inline bool copy_span(void *map, __u64 pid_tgid, struct sf_span *span)
{
	struct sf_span *seen = bpf_map_lookup_elem(map, &pid_tgid);

	if (!seen)
		return false;
	*span = *seen;
	barrier();
	return bpf_map_lookup_elem(map, &pid_tgid) == seen && sf_same_span(span, seen);
}

static __always_inline void *context_map(void)
{
	__u32 slot = 0;

	return bpf_map_lookup_elem(&context, &slot);
}

/*
 * An entry of the very span that a dead thread with the same ids left behind: a crashed writer did not take it away,
 * and no live one has set it since.
 */
static __always_inline bool is_left_behind(__u64 pid_tgid, const struct sf_span *span)
{
	const struct sf_span *left = left_entries ? bpf_map_lookup_elem(&left_behind, &pid_tgid) : NULL;

	return left && sf_same_span(left, span);
}

/* The pinned map's word on a thread. An id of zeros is no span: a writer may clear an entry in place. */
static __always_inline bool read_map(void *map, __u64 pid_tgid, struct sf_span *span)
{
	return (copy_span(map, pid_tgid, span) || copy_span(map, pid_tgid, span)) && span->span_id;
}

/* The span of a thread, for who counts nothing. */
static __always_inline bool read_context(__u64 pid_tgid, struct sf_span *span)
{
	void *map = context_map();

	return map && read_map(map, pid_tgid, span) && !is_left_behind(pid_tgid, span);
}

/* The same, with zeros where there is none. */
static __always_inline void copy_context(__u64 pid_tgid, struct sf_span *span)
{
	if (!read_context(pid_tgid, span))
		__builtin_memset(span, 0, sizeof(*span));
}

/* The pinned map's answer. */
static __always_inline bool ask_map(struct event *event, __u64 pid_tgid, struct sf_span *span)
{
	void *map = context_map();

	if (!map) {
		count(event, SF_COUNT_NO_MAP);
		return false;
	}
	if (!read_map(map, pid_tgid, span))
		return false;
	if (!is_left_behind(pid_tgid, span))
		return true;
	count(event, SF_COUNT_STALE);
	return false;
}

/* Fills `span`, with zeros where no source knows one, and says who answered. */
static __always_inline enum sf_source context_of(struct event *event, __u64 pid_tgid, struct sf_span *span)
{
	if (ask_map(event, pid_tgid, span))
		return SF_SOURCE_MAP;
	__builtin_memset(span, 0, sizeof(*span));
	return SF_SOURCE_NONE;
}

#endif
