// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The sweep: the loader reads this iterator after it has stepped the epoch, and every record of an earlier epoch is
 * emitted and given up. What is left (ring full, record in use) is counted, so that the loader sweeps again.
 */
#include "record.bpf.h"

SEC("iter/bpf_map_elem")
int on_sweep(struct bpf_iter__bpf_map_elem *ctx)
{
	/* Only the key: the iterator's value is a copy for reading, and what is changed must be looked up. */
	__u32 *key = ctx->key;

	if (key && !sweep_record(*key, epoch))
		__sync_fetch_and_add(&sweep_left, 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
