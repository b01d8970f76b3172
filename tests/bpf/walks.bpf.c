// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* The walk over a user stack in a program that test_run can call: the stack is that of the test, as it made it. */
#include "walks.h"

#include "bpf/walk.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sf_walk_io);
} walk_io SEC(".maps");

SEC("raw_tp")
int body_walk(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 zero = 0, entry = ENTRY_TICK;
	struct sf_walk_io *io = bpf_map_lookup_elem(&walk_io, &zero);
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);

	if (!io || !work)
		return 0;
	work->msg.process = io->process;
	work->msg.kernel_frames = 0;
	work->walk.at = io->at;
	work->walk.back = !io->exact;
	bpf_probe_read_kernel(work->walk.registers, sizeof(work->walk.registers), io->registers);
	work->walk.has_registers = 1;
	walk_user(work, entry);
	io->end = work->walk.end;
	io->frames = work->walk.next;
	bpf_probe_read_kernel(io->frame, sizeof(io->frame), work->msg.frames);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
