/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Pure logic on the ABI's types: hash, compare, fold. No helpers, no maps, no kernel types, so the host's tests compile
 * it as it is and hold it against a naive model.
 */
#ifndef SPANFOLD_CORE_H
#define SPANFOLD_CORE_H

#include "abi.h"

#define SF_INLINE static inline __attribute__((always_inline))

enum sf_folded {
	SF_FOLDED = 0,
	SF_FULL = 1, /* nothing was changed */
};

/* A busy span's own hash table: `index` maps a hash to 1 + slot, slots are dense so that they leave in one piece. */
struct sf_table {
	__u64 taken; /* by exchange: 0 free */
	__u8 index[SF_TABLE_INDEX];
	struct sf_fold_msg msg;
};

/* What a thread leaves that changed another thread's entry: that thread's next event, or the sweep, acts on it. */
struct sf_note {
	__u64 ns; /* when */
	struct sf_span old; /* what the entry held until then */
	struct sf_span span; /* what it holds since then; zeros: nothing */
	__u64 evicted; /* 1: nobody took the entry away, it made room for another */
};

/* One set of stack ids that were sent; replacing an id at worst sends its stack once more. */
struct sf_sent {
	__u64 tag[SF_SENT_WAYS];
};

/* Who tells of a thread's span. */
enum sf_teller {
	SF_TELLER_SAMPLE = 0, /* a tick, which may come long after the change */
	SF_TELLER_LOOK = 1, /* the same, but it has no sample: a hook finds what was missed before */
	SF_TELLER_HOOK = 2, /* the change itself, just before it takes effect */
	SF_TELLER_EXIT = 3, /* the end of the thread */
};

/* All that is known of one event of a thread when it is settled and folded. */
struct sf_sample {
	__u64 pid_tgid;
	__u64 now_ns;
	struct sf_process process;
	struct sf_span span; /* of the thread from now on; zeros: none */
	struct sf_span old; /* of a hook or an exit: what the map has held for the thread until now */
	__u32 kind; /* enum sf_kind */
	__u32 source; /* enum sf_source */
	__u32 teller; /* enum sf_teller */
	__u32 switches; /* how often the thread has left its CPU */
	__u32 in_kernel; /* of a tick: it hit the kernel, so that a hook's change may be under way */
	__u32 pad;
};

/* What a look at the bucket of a thread found. Ways count from 1, 0 is none. */
struct sf_found {
	__u32 own; /* the thread's record for this span */
	__u32 refused; /* its own of an earlier flush, which the ring refused */
	__u32 spare; /* a free record */
	__u32 oldest; /* of the thread's records for other spans, of those that have left if there are any */
	__u32 others; /* how many of those there are */
	__u64 least; /* what the oldest is told by */
	__u64 own_ns; /* when its own was last on the thread */
	__u64 left_ns; /* when its own left for the nested spans under which it was until now; 0: it was not */
	__u32 idle; /* a record, of whatever thread, whose span has left */
	__u32 hold; /* 1: no record may be opened: a hook has just acted, or the thread's own is in use */
};

/* The registers that a walk follows; on arm64 x29 is the frame pointer. */
struct sf_registers {
	__u64 pc;
	__u64 sp;
	__u64 fp;
};

/* What of a stack is read at once: one read serves some frames. */
#define SF_WINDOW_BYTES 1024
#define SF_WINDOW_WORDS (SF_WINDOW_BYTES / 8)
/* DWARF's, of x86-64, without the instruction pointer. */
#define SF_REGISTERS 16

/* A walk over a user stack, at one of its frames. */
struct sf_walk {
	struct sf_registers at;
	__u64 look; /* the address whose rule is asked for */
	__u64 hash; /* of the frames so far */
	__u64 link; /* arm64: x30 of the innermost frame */
	__u32 next; /* where the next frame goes: behind those of the kernel and those so far */
	__u32 stop; /* where none goes any more */
	__u32 end; /* enum sf_end */
	__u32 back; /* 0: pc is that of an instruction that ran; 1: a return address, its call is before it */
	__u32 switches; /* to other stacks */
	__u32 has_registers; /* 1: `registers` are those of this stack */
	__u32 window_bytes;
	__u64 window_at;
	struct sf_space space; /* of the process walked last */
	struct sf_range range; /* that held the last address */
	__u32 spaces_version; /* at which `space` was read */
	__u32 pad;
	__u64 registers[SF_REGISTERS]; /* of the innermost frame */
	__u64 window[SF_WINDOW_WORDS];
};

/*
 * Rules by address, of what was walked lately on a CPU. What nearly all rules say is there itself, so that a frame
 * costs one cache line; of others only the number.
 */
#define SF_MEMO_SLOTS 1024
struct sf_memo_slot {
	__u64 address;
	__u32 generation; /* of the space; 0: empty */
	__u32 number; /* of the rule */
	__u32 is_plain; /* 1: what follows is the rule */
	__u8 fp; /* enum sf_saved_fp */
	__u8 from_fp; /* 1: the CFA is told from the frame pointer, 0: from the stack pointer */
	__u16 pad;
	__s32 offset;
	__s32 fp_offset;
};
struct sf_memo {
	struct sf_memo_slot slot[SF_MEMO_SLOTS];
};

/* The work of one entry point on one CPU: kept in a map, where the verifier follows no values and paths converge. */
struct sf_scratch {
	struct sf_sample sample;
	struct sf_found found;
	struct sf_walk walk;
	struct sf_stack_msg msg;
};

SF_ASSERT(sizeof(struct sf_scratch) <= 32768, "the most that a per-CPU value may have");
SF_ASSERT(sizeof(struct sf_memo_slot) == 32, "two a cache line");
SF_ASSERT(sizeof(struct sf_memo) <= 32768, "the most that a per-CPU value may have");
SF_ASSERT(sizeof(struct sf_sent) == 64, "one cache line");
SF_ASSERT(sizeof(struct sf_table) == 8 + SF_TABLE_INDEX + 80 + 16 * SF_TABLE_SLOTS, "no hidden padding");

/* One word into a running hash: a bijection of `hash` for each word, so that no entropy is lost along a stack. */
SF_INLINE __u64 sf_mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ (hash >> 32);
}

/* Opens a stack's hash with who it belongs to, so that equal frames of two processes differ. */
SF_INLINE __u64 sf_hash_open(__u64 seed, const struct sf_process *process)
{
	__u64 hash = sf_mix(seed, process->start_ns);

	return sf_mix(hash, ((__u64)process->tgid << 32) | process->exec_id);
}

/* Closes it with how the stack divides and why it ends. 0 is kept for "no stack". */
SF_INLINE __u64 sf_hash_close(__u64 hash, __u32 kernel_frames, __u32 frames, __u32 end)
{
	hash = sf_mix(hash, ((__u64)end << 32) | (kernel_frames << 16) | frames);
	hash = sf_mix(hash, hash >> 29);
	return hash ? hash : 1;
}

SF_INLINE __u32 sf_bucket(__u64 seed, __u64 pid_tgid, __u32 mask)
{
	return (__u32)(sf_mix(seed, pid_tgid) >> 16) & mask;
}

SF_INLINE int sf_same_trace(const struct sf_span *a, const struct sf_span *b)
{
	return a->trace_id[0] == b->trace_id[0] && a->trace_id[1] == b->trace_id[1];
}

SF_INLINE int sf_same_span(const struct sf_span *a, const struct sf_span *b)
{
	return a->span_id == b->span_id && sf_same_trace(a, b);
}

/* Does it tell of what the map shows, and not of a change? */
SF_INLINE int sf_is_look(const struct sf_sample *sample)
{
	return sample->teller <= SF_TELLER_LOOK;
}

/* Counts one sample in the inline slots. Slots fill from the front and never empty one by one. */
SF_INLINE enum sf_folded sf_fold_inline(struct sf_fold_head *fold, struct sf_slot *slots, __u64 stack_id, __u32 kind)
{
	__u32 i, used = fold->head.count;

	for (i = 0; i < SF_INLINE_SLOTS; i++) {
		struct sf_slot *slot = &slots[i];

		if (i >= used) {
			slot->stack_id = stack_id;
			slot->count = 1;
			slot->kind = kind;
			fold->head.count = (__u16)(i + 1);
			return SF_FOLDED;
		}
		if (slot->stack_id == stack_id && slot->kind == kind) {
			slot->count++;
			return SF_FOLDED;
		}
	}
	return SF_FULL;
}

/* How far a search goes before it calls the table full: with the index half empty this hardly happens. */
#define SF_TABLE_PROBES 16

/* Counts one sample in a table. */
SF_INLINE enum sf_folded sf_fold_table(struct sf_table *table, __u64 stack_id, __u32 kind)
{
	__u32 i, used = table->msg.fold.head.count;

	for (i = 0; i < SF_TABLE_PROBES; i++) {
		__u32 at = (__u32)(stack_id + i) & (SF_TABLE_INDEX - 1);
		/* 64 bits wide, so that the subtraction below folds into an offset: older verifiers lose the bound
		 * else. */
		__u64 number = table->index[at];
		struct sf_slot *slot;

		if (!number) {
			if (used >= SF_TABLE_SLOTS)
				return SF_FULL;
			slot = &table->msg.slots[used];
			slot->stack_id = stack_id;
			slot->count = 1;
			slot->kind = kind;
			table->index[at] = (__u8)(used + 1);
			table->msg.fold.head.count = (__u16)(used + 1);
			return SF_FOLDED;
		}
		slot = table->msg.slots + number - 1;
		if (slot->stack_id == stack_id && slot->kind == kind) {
			slot->count++;
			return SF_FOLDED;
		}
	}
	return SF_FULL;
}

/* 0 where `to_ns` is the earlier: CPUs read their clocks at other instants than they write. */
SF_INLINE __u64 sf_elapsed_ns(__u64 from_ns, __u64 to_ns)
{
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

/* Whether the record has time on the thread to tell of. */
SF_INLINE int sf_has_stay(const struct sf_record *record)
{
	return record->fold.on_thread_ns != 0;
}

/* The span comes onto the thread: a new stay, or more of the one before. */
SF_INLINE void sf_stay_begin(struct sf_record *record, __u64 now_ns, __u32 switches, int seen)
{
	record->since_ns = now_ns;
	record->seen_ns = now_ns;
	record->begun_ns = seen ? now_ns : 0;
	record->switches = switches;
	if (!sf_has_stay(record)) {
		record->fold.first_ns = now_ns;
		record->fold.stay = seen ? SF_STAY_BEGIN_SEEN : 0;
	}
	record->fold.stay &= ~(__u32)(SF_STAY_END_SEEN | SF_STAY_GONE | SF_STAY_TOLD);
}

/* Adds the stay's time until `now_ns`; it goes on. A stay has at least a nanosecond: 0 says that there is none. */
SF_INLINE void sf_stay_cut(struct sf_record *record, __u64 now_ns)
{
	__u64 length_ns = sf_elapsed_ns(record->since_ns, now_ns);

	if (!record->since_ns)
		return;
	if (!length_ns)
		length_ns = 1;
	record->fold.on_thread_ns += length_ns;
	record->fold.last_ns = record->since_ns + length_ns;
	record->since_ns = record->fold.last_ns;
	record->seen_ns = record->fold.last_ns;
}

/* The span leaves the thread at `now_ns`, and somebody saw that; otherwise `now_ns` is when it was last known there. */
SF_INLINE void sf_stay_end(struct sf_record *record, __u64 now_ns, int seen)
{
	sf_stay_cut(record, now_ns);
	record->since_ns = 0;
	if (seen)
		record->fold.stay |= SF_STAY_END_SEEN;
}

/* Whether it is news that the span is gone: its last stay may have been told of while a nested one covered it. */
SF_INLINE int sf_has_end(const struct sf_record *record)
{
	const __u32 ended = SF_STAY_END_SEEN | SF_STAY_GONE;

	return (record->fold.stay & (ended | SF_STAY_TOLD)) == ended;
}

/* What was told of the stay is told: the next message begins where this one ended, which is no begin of the stay. */
SF_INLINE void sf_stay_told(struct sf_record *record)
{
	if (record->fold.stay & SF_STAY_GONE)
		record->fold.stay |= SF_STAY_TOLD;
	if (!sf_has_stay(record))
		return;
	record->fold.on_thread_ns = 0;
	record->fold.first_ns = record->fold.last_ns;
	record->fold.stay &= ~(__u32)SF_STAY_BEGIN_SEEN;
}

/* Makes a table empty; its slots are not read before they are written. */
SF_INLINE void sf_table_clear(struct sf_table *table)
{
	__builtin_memset(table->index, 0, sizeof(table->index));
	table->msg.fold.head.count = 0;
}

#endif
