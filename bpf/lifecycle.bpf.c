// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Hooks on what changes the context map: a set, a delete, an eviction. They run for every map of that type on the host,
 * so the first thing they do is to compare ids. They come just before the change takes effect, in the thread that makes
 * it, and may be missed (bpf/README.md, "What the hook cannot see").
 */
#include "stay.bpf.h"
#include "task.bpf.h"

/* A change to the entry of a thread, by whom it concerns. */
static __always_inline void tell(struct event *event, enum entry entry, __u64 pid_tgid, const struct sf_span *span)
{
	__u32 number = entry;
	struct sf_scratch *work = bpf_map_lookup_elem(&scratch, &number);
	struct sf_sample *sample;

	if (!work)
		return;
	sample = &work->sample;
	sample->pid_tgid = pid_tgid;
	sample->now_ns = now_boot_ns();
	sample->span = *span;
	sample->source = SF_SOURCE_MAP;
	sample->teller = SF_TELLER_HOOK;
	copy_context(pid_tgid, &sample->old);
	process_of(current_task(), &sample->process);
	sample->switches = switches_of(current_task());
	settle_change(entry, event->epoch);
}

/* A change to another thread's entry: its records are not ours to open, so a note is left. */
static __always_inline void tell_other(__u64 pid_tgid, const struct sf_span *span)
{
	struct sf_note note = { .ns = now_boot_ns(), .span = *span };

	copy_context(pid_tgid, &note.old);
	leave_note(pid_tgid, &note);
}

/* `span`: what the entry of `pid_tgid` is to hold; zeros: nothing. */
static __always_inline void on_change(struct event *event, enum entry entry, __u64 pid_tgid, const struct sf_span *span)
{
	__u64 begin_ns = begin_watch(event, SF_COUNT_HOOKED);

	count(event, SF_COUNT_HOOKED);
	if (pid_tgid == bpf_get_current_pid_tgid()) {
		if (is_wanted(pid_tgid))
			tell(event, entry, pid_tgid, span);
	} else if (is_target(pid_tgid)) {
		tell_other(pid_tgid, span); /* in which cgroup that one is cannot be told from here */
	}
	end_watch(event, begin_ns);
}

/* Is it the context map that changes? All others end here. */
static __always_inline bool open_ours(struct event *event, __u32 map_id)
{
	if (!open_event(event, epoch))
		return false;
	if (map_id == context_id)
		return true;
	count(event, SF_COUNT_FOREIGN);
	return false;
}

SEC("fentry/htab_lru_map_update_elem")
int BPF_PROG(on_set, struct bpf_map *map, const void *key, const void *value)
{
	struct sf_span span = {};
	struct event event;
	__u64 pid_tgid = 0;

	if (!open_ours(&event, map->id))
		return 0;
	if (bpf_probe_read_kernel(&pid_tgid, sizeof(pid_tgid), key) ||
	    bpf_probe_read_kernel(&span, sizeof(span), value))
		return 0;
	on_change(&event, ENTRY_SET, pid_tgid, &span);
	return 0;
}

SEC("fentry/htab_lru_map_delete_elem")
int BPF_PROG(on_delete, struct bpf_map *map, const void *key)
{
	struct sf_span none = {};
	struct event event;
	__u64 pid_tgid = 0;

	if (!open_ours(&event, map->id))
		return 0;
	if (bpf_probe_read_kernel(&pid_tgid, sizeof(pid_tgid), key))
		return 0;
	on_change(&event, ENTRY_DELETE, pid_tgid, &none);
	return 0;
}

/* Under the lock of that map's LRU list, so the map itself must not be touched here. */
SEC("fentry/htab_lru_map_delete_node")
int BPF_PROG(on_evict, struct bpf_map *map, const void *node)
{
	struct {
		__u64 pid_tgid;
		struct sf_span span;
	} entry;
	struct sf_note note = { .evicted = 1 };
	struct event event;

	if (!open_ours(&event, BPF_CORE_READ(map, id)))
		return 0;
	note.ns = now_boot_ns();
	/* The value lies behind the key. */
	if (bpf_probe_read_kernel(&entry, sizeof(entry), key_of_node(node)))
		return 0;
	count(&event, SF_COUNT_EVICTED);
	note.old = entry.span;
	leave_note(entry.pid_tgid, &note);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
