// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Threads that begin and end: descendants of a target become targets, and a dying thread's records are emitted. */
#include "stay.bpf.h"
#include "task.bpf.h"

static __always_inline void inherit(__u32 parent, __u32 child, enum sf_target_kind kind)
{
	struct sf_target born = { .id = child, .kind = kind };
	__u8 one = 1;

	if (is_named(parent, kind))
		bpf_map_update_elem(&targets, &born, &one, BPF_ANY);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	if (parent->tgid == child->tgid)
		return 0;
	if (knobs.follow_forks)
		inherit((__u32)parent->tgid, (__u32)child->tgid, SF_TARGET_PROCESS);
	if (knobs.filter & SF_FILTER_MEMBERS)
		inherit((__u32)parent->tgid, (__u32)child->tgid, SF_TARGET_MEMBER);
	return 0;
}

/* The thread at hand ends: so do its stays, at this instant. */
static __always_inline void end_stays(__u64 pid_tgid, __u32 now_epoch)
{
	__u32 entry = ENTRY_EXIT;
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &entry);
	struct sf_sample *sample;

	if (!work)
		return;
	sample = &work->sample;
	sample->pid_tgid = pid_tgid;
	sample->now_ns = now_boot_ns();
	sample->source = SF_SOURCE_MAP;
	sample->teller = SF_TELLER_EXIT;
	process_of(current_task(), &sample->process);
	sample->switches = switches_of(current_task());
	__builtin_memset(&sample->span, 0, sizeof(sample->span));
	copy_context(pid_tgid, &sample->old);
	settle_change(entry, now_epoch);
}

/* An entry that outlives its thread must not be taken for the context of a later thread with the same ids. */
static __always_inline void mark_left_entry(__u64 pid_tgid)
{
	void *map = context_map();
	struct sf_span span;

	bpf_map_delete_elem(&notes, &pid_tgid);
	if (!map || !read_map(map, pid_tgid, &span))
		return;
	bpf_map_update_elem(&left_behind, &pid_tgid, &span, BPF_ANY);
	left_entries = 1;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	struct sf_target process = { .id = (__u32)task->tgid };
	struct sf_target thread = { .id = (__u32)task->pid, .kind = SF_TARGET_THREAD };
	struct sf_target member = { .id = (__u32)task->tgid, .kind = SF_TARGET_MEMBER };

	end_stays(bpf_get_current_pid_tgid(), epoch);
	mark_left_entry(bpf_get_current_pid_tgid());
	if (!knobs.filter)
		return 0;
	/* Whoever gets these numbers next was not asked for. */
	bpf_map_delete_elem(&targets, &thread);
	/* The count of live threads has already been lowered for this one. */
	if (task->signal->live.counter == 0) {
		bpf_map_delete_elem(&targets, &process);
		bpf_map_delete_elem(&targets, &member);
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
