// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a span that outgrew its inline slots folds into: a table of our own, or a BPF hash map out of a pool behind an
 * array of maps. Each program times FOLDS folds of `distinct` stacks by the kernel's own clock.
 */
#include "bpf/compat.bpf.h"
#include "bpf/core.h"

#define FOLDS 128
#define POOL 64

volatile __u32 distinct = 16;
volatile __u64 spent_ns;
volatile __u64 folded;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, POOL);
	__type(key, __u32);
	__type(value, struct sf_table);
} own_tables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, POOL);
	__type(key, __u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_HASH);
			__uint(max_entries, SF_TABLE_SLOTS);
			__type(key, __u64);
			__type(value, __u64);
		});
} hash_pool SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} out SEC(".maps");

/* The same ids in the same order for both, so that misses come first and hits follow, as in a busy span. */
static __always_inline __u64 id_of(__u32 i, __u32 many)
{
	return sf_mix(5, many ? i % many : 0);
}

VERIFIED_ONCE fold_own(__u32 slot, __u32 i)
{
	struct sf_table *table = bpf_map_lookup_elem(&own_tables, &slot);

	return table && sf_fold_table(table, id_of(i, distinct), SF_KIND_ON_CPU) == SF_FOLDED;
}

VERIFIED_ONCE fold_hash(__u32 slot, __u32 i)
{
	void *map = bpf_map_lookup_elem(&hash_pool, &slot);
	__u64 id = id_of(i, distinct), one = 1, *count;

	if (!map)
		return 0;
	count = bpf_map_lookup_elem(map, &id);
	if (count) {
		*count += 1;
		return 1;
	}
	return bpf_map_update_elem(map, &id, &one, BPF_NOEXIST) == 0;
}

SEC("raw_tp")
int bench_own(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 i, slot = (__u32)ctx->args[0] % POOL;
	__u64 begin = bpf_ktime_get_ns();

	for (i = 0; i < FOLDS; i++)
		folded += fold_own(slot, i);
	spent_ns += bpf_ktime_get_ns() - begin;
	return 0;
}

SEC("raw_tp")
int bench_hash(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 i, slot = (__u32)ctx->args[0] % POOL;
	__u64 begin = bpf_ktime_get_ns();

	for (i = 0; i < FOLDS; i++)
		folded += fold_hash(slot, i);
	spent_ns += bpf_ktime_get_ns() - begin;
	return 0;
}

/* The end of a span with a table: one message, and the table is free again. */
SEC("raw_tp")
int bench_emit(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 slot = (__u32)ctx->args[0] % POOL;
	struct sf_table *table = bpf_map_lookup_elem(&own_tables, &slot);
	__u64 bytes, begin;

	if (!table)
		return 0;
	begin = bpf_ktime_get_ns();
	bytes = sizeof(table->msg.fold) + table->msg.fold.head.count * sizeof(struct sf_slot);
	if (bytes <= sizeof(table->msg))
		bpf_ringbuf_output(&out, &table->msg, bytes, BPF_RB_NO_WAKEUP);
	sf_table_clear(table);
	spent_ns += bpf_ktime_get_ns() - begin;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
