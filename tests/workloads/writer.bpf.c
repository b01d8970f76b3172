// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * A double of OBI's context writer: programs on the workloads' span_begin and span_end that set, overwrite, restore and
 * delete the thread's entry of the context map, in the kernel, as the real one does.
 */
#include <linux/bpf.h>
#include <linux/ptrace.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "writer.h"

struct context {
	__u8 trace_id[16];
	__u8 span_id[8];
};

struct span_stack {
	__u64 depth; /* may pass the limit: then the spans above it are not published */
	struct context spans[WRITER_MAX_DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WRITER_CTX_ENTRIES);
	__type(key, __u64);
	__type(value, struct context);
} traces_ctx_v1 SEC(".maps");

/* The spans that each thread is in. An entry goes when its last span ends, so it stays small. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct span_stack);
} span_stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WRITER_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} writer_counts SEC(".maps");

const volatile struct writer_config config = {};

static void count(__u32 what)
{
	__u64 *value = bpf_map_lookup_elem(&writer_counts, &what);

	if (value)
		*value += 1;
}

static void publish(__u64 thread, const struct context *context)
{
	if (config.write_nothing)
		return;
	count(bpf_map_update_elem(&traces_ctx_v1, &thread, context, BPF_ANY) ? WRITER_FAILED : WRITER_SET);
}

static void withdraw(__u64 thread)
{
	if (config.write_nothing || config.forget_delete)
		return;
	count(bpf_map_delete_elem(&traces_ctx_v1, &thread) ? WRITER_FAILED : WRITER_DELETED);
}

SEC("uprobe")
int on_span_begin(struct pt_regs *regs)
{
	const void *trace_id = (const void *)PT_REGS_PARM1(regs);
	const void *span_id = (const void *)PT_REGS_PARM2(regs);
	__u64 thread = bpf_get_current_pid_tgid();
	struct span_stack *stack = bpf_map_lookup_elem(&span_stacks, &thread);
	struct span_stack fresh = {};
	struct context context = {};

	if (bpf_probe_read_user(context.trace_id, sizeof(context.trace_id), trace_id) ||
	    bpf_probe_read_user(context.span_id, sizeof(context.span_id), span_id)) {
		count(WRITER_FAILED);
		return 0;
	}
	if (!stack) {
		fresh.depth = 1;
		fresh.spans[0] = context;
		if (bpf_map_update_elem(&span_stacks, &thread, &fresh, BPF_ANY))
			count(WRITER_FAILED);
	} else {
		if (stack->depth < WRITER_MAX_DEPTH)
			stack->spans[stack->depth] = context;
		stack->depth++;
	}
	publish(thread, &context);
	return 0;
}

SEC("uprobe")
int on_span_end(void *regs)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct span_stack *stack = bpf_map_lookup_elem(&span_stacks, &thread);
	struct context parent;
	__u64 depth;

	(void)regs;
	if (!stack)
		return 0; /* begun before the programs were attached */
	depth = stack->depth - 1;
	stack->depth = depth;
	if (depth && !config.forget_parent) {
		parent = stack->spans[(depth - 1) & (WRITER_MAX_DEPTH - 1)];
		publish(thread, &parent);
		return 0;
	}
	if (!depth)
		bpf_map_delete_elem(&span_stacks, &thread);
	withdraw(thread);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
