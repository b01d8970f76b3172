/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One at a time, and nobody waits: by exchange, or, before atomics that return a value, by inserting a key that must
 * not be there. Both order all that comes before and after them.
 */
#ifndef SPANFOLD_TAKE_BPF_H
#define SPANFOLD_TAKE_BPF_H

#include "maps.bpf.h"

#ifdef SPANFOLD_NO_FETCH

static __always_inline bool try_take(__u64 *word, __u32 key)
{
	__u8 one = 1;

	return bpf_map_update_elem(&locks, &key, &one, BPF_NOEXIST) == 0;
}

static __always_inline void give_back(__u64 *word, __u32 key)
{
	bpf_map_delete_elem(&locks, &key);
}

#else

static __always_inline bool try_take(__u64 *word, __u32 key)
{
	return __sync_lock_test_and_set(word, 1) == 0;
}

/* An exchange, since a plain store of 0 would not be ordered on every architecture. */
static __always_inline void give_back(__u64 *word, __u32 key)
{
	(void)__sync_lock_test_and_set(word, 0);
}

#endif

#endif
