/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Messages into the ring: one at a time, straight from where they were gathered, with as few wake-ups as possible. */
#ifndef SPANFOLD_EMIT_BPF_H
#define SPANFOLD_EMIT_BPF_H

#include "knobs.bpf.h"
#include "stats.bpf.h"

/* The loader empties the ring at each flush; in between it need only run when the ring fills up. */
static __always_inline __u64 wakeup_flag(void)
{
	if (bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) >= knobs.wakeup_bytes)
		return BPF_RB_FORCE_WAKEUP;
	return BPF_RB_NO_WAKEUP;
}

/* Why did the ring, which never fills to the brim, refuse `bytes`? Where there was room, its lock was not to be had. */
static __always_inline enum sf_drop refusal(__u64 bytes)
{
	__u64 used = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);

	return used + bytes + BPF_RINGBUF_HDR_SZ >= bpf_ringbuf_query(&ring, BPF_RB_RING_SIZE) ? SF_DROP_RING_FULL :
												 SF_DROP_RING_BUSY;
}

#endif
