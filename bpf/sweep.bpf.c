// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The sweep: the loader reads this iterator after it has stepped the epoch, and every record of an earlier epoch is
 * emitted and given up. What is left (ring full, record in use) is counted, so that the loader sweeps again.
 */
#include "record.bpf.h"

SEC("iter/bpf_map_elem")
int on_sweep(struct bpf_iter__bpf_map_elem *ctx)
{
	__u32 *key = ctx->key, place, bucket, way;
	struct sf_owners *bucket_owners;
	struct sf_record *record;
	__u32 now_epoch = epoch;
	__u64 owner;

	if (!key)
		return 0;
	place = *key;
	bucket = place / SF_BUCKET_WAYS;
	way = place % SF_BUCKET_WAYS;
	/* The iterator's value is a copy for reading; what is changed must be looked up. */
	bucket_owners = bpf_map_lookup_elem(&owners, &bucket);
	record = record_at(place);
	if (!bucket_owners || !record)
		return 0;
	owner = *(volatile __u64 *)&bucket_owners->owner[way];
	if (!owner || record->fold.head.epoch == now_epoch)
		return 0;
	if (!close_record(place, owner, now_epoch))
		__sync_fetch_and_add(&sweep_left, 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
