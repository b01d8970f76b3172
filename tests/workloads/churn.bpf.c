// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Changes the context map, or another map of its kind, as fast as BPF programs can. Run by BPF_PROG_TEST_RUN. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "churn.h"

struct context {
	__u64 trace_id[2];
	__u64 span_id;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct context);
} traces_ctx_v1 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u64);
} foreign SEC(".maps");

/* Byte 0 of the span id is the kind that a test knows these spans by. */
#define KIND 0x77ULL

static void set_and_delete(__u64 serial)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct context context = { .trace_id = { thread, serial + 1 }, .span_id = (serial + 1) << 8 | KIND };

	bpf_map_update_elem(&traces_ctx_v1, &thread, &context, BPF_ANY);
	bpf_map_delete_elem(&traces_ctx_v1, &thread);
}

static void set_key(__u64 number)
{
	/* Beyond any thread's: pids end at 2^22. */
	__u64 thread = (1ULL << 30 | number) << 32 | (1ULL << 30 | number);
	struct context context = { .trace_id = { 1, number + 1 }, .span_id = (number + 1) << 8 | KIND };

	bpf_map_update_elem(&traces_ctx_v1, &thread, &context, BPF_ANY);
}

/* args: mode, first number. */
SEC("raw_tp")
int on_churn(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 mode = ctx->args[0], first = ctx->args[1], i;

	for (i = 0; i < CHURN_STEPS; i++) {
		__u64 number = first + i;

		if (mode == CHURN_OWN)
			set_and_delete(number);
		else if (mode == CHURN_KEYS)
			set_key(number);
		else
			bpf_map_update_elem(&foreign, &number, &number, BPF_ANY);
	}
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
