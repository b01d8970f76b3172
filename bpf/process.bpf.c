// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Threads that begin and end: descendants of a target become targets, and a dying thread's records are emitted. */
#include "record.bpf.h"
#include "task.bpf.h"

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct sf_target old = { .id = (__u32)parent->tgid };
	struct sf_target born = { .id = (__u32)child->tgid };
	__u8 one = 1;

	if (!knobs.follow_forks || old.id == born.id)
		return 0;
	if (bpf_map_lookup_elem(&targets, &old))
		bpf_map_update_elem(&targets, &born, &one, BPF_ANY);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	struct sf_target group = { .id = (__u32)task->tgid };
	struct sf_target thread = { .id = (__u32)task->pid, .is_thread = 1 };

	close_thread(bpf_get_current_pid_tgid(), epoch, NULL);
	if (!knobs.filter)
		return 0;
	/* Whoever gets these numbers next was not asked for. */
	bpf_map_delete_elem(&targets, &thread);
	/* The count of live threads has already been lowered for this one. */
	if (task->signal->live.counter == 0)
		bpf_map_delete_elem(&targets, &group);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
