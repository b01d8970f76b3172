/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Who is running: the identity of the process, what /proc can confirm of it, and whether anybody asked for it. */
#ifndef SPANFOLD_TASK_BPF_H
#define SPANFOLD_TASK_BPF_H

#include "knobs.bpf.h"
#include "maps.bpf.h"

/* Plain loads through the task's BTF type: on each tick, and half the price of probe reads. */
static __always_inline void process_of(struct task_struct *task, struct sf_process *process)
{
	process->start_ns = task->group_leader->start_boottime;
	process->tgid = (__u32)task->tgid;
	process->exec_id = (__u32)task->self_exec_id;
}

static __always_inline void image_of(struct task_struct *task, struct sf_image *image)
{
	struct mm_struct *mm = BPF_CORE_READ(task, mm);

	/* A kernel thread has none; reads through NULL leave zeros. */
	image->start_code = BPF_CORE_READ(mm, start_code);
	image->end_code = BPF_CORE_READ(mm, end_code);
	image->start_stack = BPF_CORE_READ(mm, start_stack);
}

static __always_inline bool is_target(__u64 pid_tgid)
{
	struct sf_target group = { .id = pid_tgid >> 32 };
	struct sf_target thread = { .id = (__u32)pid_tgid, .is_thread = 1 };

	return bpf_map_lookup_elem(&targets, &group) || bpf_map_lookup_elem(&targets, &thread);
}

#endif
