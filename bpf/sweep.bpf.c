// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The sweep: from time to time the loader has these programs run over all buckets, and every record is held against the
 * context map; after the loader has stepped the epoch, all that gathered in the one before goes out. What is left (ring
 * full, record in use) is counted, so that the loader sweeps again.
 *
 * A raw tracepoint program that is attached nowhere and run by BPF_PROG_TEST_RUN: every kernel from 5.10 on has that,
 * also those that refuse iterators, and it costs a system call for every SF_SWEEP_BUCKETS buckets.
 */
#include "sweep.bpf.h"

VERIFIED_ONCE sweep_bucket(__u32 bucket, __u32 now_epoch)
{
	struct sf_owners *bucket_owners = bpf_map_lookup_elem(&owners, &bucket);
	__u32 way;

	if (!bucket_owners)
		return 0;
	for (way = 0; way < SF_BUCKET_WAYS; way++) {
		if (!*(volatile __u64 *)&bucket_owners->owner[way])
			continue;
		if (!sweep_record(bucket * SF_BUCKET_WAYS + way, now_epoch))
			__sync_fetch_and_add(&sweep_left, 1);
	}
	return 0;
}

/* args[0]: the first of the buckets. */
SEC("raw_tp")
int on_sweep(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 first = (__u32)ctx->args[0], now_epoch = epoch, i;

	sweep_ns = now_boot_ns();
	for (i = 0; i < SF_SWEEP_BUCKETS; i++)
		sweep_bucket(first + i, now_epoch);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
