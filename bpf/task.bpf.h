/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Who is running: the identity of the process, what /proc can confirm of it, and whether anybody asked for it. */
#ifndef SPANFOLD_TASK_BPF_H
#define SPANFOLD_TASK_BPF_H

#include "knobs.bpf.h"
#include "maps.bpf.h"

static __always_inline void process_of(struct task_struct *task, struct sf_process *process)
{
	process->start_ns = task_field(task, group_leader, start_boottime);
	process->tgid = (__u32)task_field(task, tgid);
	process->exec_id = (__u32)task_field(task, self_exec_id);
}

/* How often the task has left its CPU, whoever wanted it. */
static __always_inline __u32 switches_of(struct task_struct *task)
{
	return (__u32)(task_field(task, nvcsw) + task_field(task, nivcsw));
}

static __always_inline void image_of(struct task_struct *task, struct sf_image *image)
{
	struct mm_struct *mm = BPF_CORE_READ(task, mm);

	/* A kernel thread has none; reads through NULL leave zeros. */
	image->start_code = BPF_CORE_READ(mm, start_code);
	image->end_code = BPF_CORE_READ(mm, end_code);
	image->start_stack = BPF_CORE_READ(mm, start_stack);
}

/* A busy process is remembered, for its share of the background and whether it ever was in a span. True: that is new.
 */
static __always_inline bool remember_process(const struct sf_process *process, bool in_span)
{
	struct sf_background *share = bpf_map_lookup_elem(&processes, process);
	struct sf_background fresh = { .carrier = in_span };

	if (!share)
		return bpf_map_update_elem(&processes, process, &fresh, BPF_NOEXIST) == 0;
	if (!in_span || share->carrier)
		return false;
	share->carrier = 1;
	return true;
}

/* What of user space was saved when the task came into the kernel. NULL: not to be had. */
static __always_inline struct pt_regs *user_registers(struct task_struct *task)
{
#ifndef SPANFOLD_NO_FETCH
	if (has_task_pt_regs())
		return (struct pt_regs *)bpf_task_pt_regs(task);
#endif
	/* At the top of its stack, without any padding in kernels that lack the helper. */
	return (struct pt_regs *)(task_field(task, stack) + KERNEL_STACK_BYTES - bpf_core_type_size(struct pt_regs));
}

static __always_inline bool is_named(__u32 id, enum sf_target_kind kind)
{
	struct sf_target target = { .id = id, .kind = kind };

	return bpf_map_lookup_elem(&targets, &target);
}

/* Is the thread at hand in one of the groups, or below it? Errors (an empty slot) are none of 1. */
VERIFIED_ONCE is_in_cgroups(void)
{
	for (__u32 slot = 0; slot < SF_MAX_CGROUPS && slot < knobs.cgroup_count; slot++) {
		if (bpf_current_task_under_cgroup(&cgroups, slot) == 1)
			return 1;
	}
	return 0;
}

static __always_inline bool is_in_group(__u64 pid_tgid)
{
	if (knobs.filter & SF_FILTER_MEMBERS && is_named(pid_tgid >> 32, SF_TARGET_MEMBER))
		return true;
	return knobs.filter & SF_FILTER_CGROUPS && is_in_cgroups();
}

/* Does the thread pass the filter by its numbers? */
static __always_inline bool is_target(__u64 pid_tgid)
{
	return !(knobs.filter & SF_FILTER_TARGETS) || is_named(pid_tgid >> 32, SF_TARGET_PROCESS) ||
	       is_named((__u32)pid_tgid, SF_TARGET_THREAD);
}

/* Has anybody asked for the thread at hand? */
static __always_inline bool is_wanted(__u64 pid_tgid)
{
	if (!is_target(pid_tgid))
		return false;
	return !(knobs.filter & (SF_FILTER_CGROUPS | SF_FILTER_MEMBERS)) || is_in_group(pid_tgid);
}

#endif
