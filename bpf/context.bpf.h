/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which span is this thread in? Asks the sources one after the other; the pinned map is the first of several. */
#ifndef SPANFOLD_CONTEXT_BPF_H
#define SPANFOLD_CONTEXT_BPF_H

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

/* The pinned map's answer. */
static __always_inline bool ask_map(struct event *event, __u64 pid_tgid, struct sf_span *span)
{
	__u32 slot = 0;
	void *map = bpf_map_lookup_elem(&context, &slot);

	if (!map) {
		count(event, SF_COUNT_NO_MAP);
		return false;
	}
	if (!copy_span(map, pid_tgid, span) && !copy_span(map, pid_tgid, span))
		return false;
	/* A writer may clear an entry in place: an id of zeros is no span. */
	return span->span_id != 0;
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
