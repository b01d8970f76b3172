/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The byte layout that the BPF programs and the loader agree on, and nothing else. Valid in C and C++.
 * All times are nanoseconds of the boot clock (CLOCK_BOOTTIME) unless a name says otherwise.
 */
#ifndef SPANFOLD_ABI_H
#define SPANFOLD_ABI_H

#include <linux/types.h>

#ifdef __cplusplus
#define SF_ASSERT(condition, text) static_assert(condition, text)
#else
#define SF_ASSERT(condition, text) _Static_assert(condition, text)
#endif
#define SF_OFFSET(type, field) __builtin_offsetof(type, field)

/* The kernel's own walk, of its own frames, stops at kernel.perf_event_max_stack, 127 by default. */
#define SF_KERNEL_FRAMES 127
/* Ours, of the user's, at --max-frames, and here at the latest. */
#define SF_USER_FRAMES 128
/* Distinct stacks that a record holds before it takes a table: most spans never see more (bench/overflow). */
#define SF_INLINE_SLOTS 8
/* Distinct stacks in a table; one byte indexes them, 0 stands for "none", and the index stays at most half full. */
#define SF_TABLE_SLOTS 255
#define SF_TABLE_INDEX 512
/* Records that share a bucket, so that the owners of one bucket are one cache line. */
#define SF_BUCKET_WAYS 8
/* Records of one thread: a span, its parent, and two more above them; the oldest makes room, one that has left first.
 */
#define SF_THREAD_RECORDS 4
/* Stack ids in one set of the set of sent stacks: again one cache line. */
#define SF_SENT_WAYS 8
/* Buckets that one run of the sweep looks at. */
#define SF_SWEEP_BUCKETS 64
/* Groups of cgroup v2 that a filter names: each costs a helper call a sample, 3 ns. */
#define SF_MAX_CGROUPS 64
/* Stays of one span on one thread that are closer than this are one: their lengths add up, the gap does not count. */
#define SF_LINGER_NS 100000

/* Where a span's context came from. The pinned map is the first of several sources. */
enum sf_source {
	SF_SOURCE_NONE = 0,
	SF_SOURCE_MAP = 1,
};

/* What is known of a thread's stay in a span: bits of sf_fold_head.stay. */
enum sf_stay {
	SF_STAY_BEGIN_SEEN = 1, /* first_ns is the instant at which the span came onto the thread */
	SF_STAY_END_SEEN = 2, /* last_ns is the instant at which it left the thread, or the thread ended */
	SF_STAY_GONE = 4, /* the thread no longer carries it: it is neither current nor covered by a nested span */
	SF_STAY_SWITCHED = 8, /* the thread left its CPU in between: where hooks were missed, one may be missing here */
	SF_STAY_TOLD = 16, /* the kernel side's own: that it is gone has been told */
};

/* What a slot of a fold counts. */
enum sf_kind {
	SF_KIND_ON_CPU = 0,
};

/* Why a tick that belongs to the report is not in it. Each reason has a counter. */
enum sf_drop {
	SF_DROP_RING_FULL = 0, /* the record could not take the sample, and the ring had no room for it */
	SF_DROP_RING_BUSY = 1, /* the same, and the ring had room but its lock was not to be had */
	SF_DROP_NO_SCRATCH = 2, /* a per-CPU area could not be reached: never seen, the verifier wants the branch */
	SF_DROP_COUNT
};

/* Why the walk of a user stack ended where it did. All but the first two are incomplete: the stack carries a marker. */
enum sf_end {
	SF_END_NO_USER = 0, /* a kernel thread */
	SF_END_BOTTOM, /* the outermost frame */
	SF_END_DEPTH, /* more frames than are kept */
	SF_END_NO_SPACE, /* what the process has mapped is not known yet */
	SF_END_NO_MAPPING, /* an address outside all code of the process */
	SF_END_NO_TABLE, /* the file's rules are not there: not yet, or they do not fit */
	SF_END_NO_RULE, /* the file says nothing about this code */
	SF_END_UNSUPPORTED, /* what it says is beyond our rules */
	SF_END_BAD_CFA, /* the caller's stack would not lie above the callee's */
	SF_END_FAULT, /* the stack cannot be read */
	SF_END_ZERO, /* a return address or frame pointer of zero where there should be one */
	SF_END_COUNT
};

/* Fates of ticks and side figures, one per-CPU counter each. The first five and the drops add up: see sf_counters. */
enum sf_count {
	SF_COUNT_TICKS = 0, /* runs of the tick program */
	SF_COUNT_IN_SPAN, /* folded into a span */
	SF_COUNT_BACKGROUND, /* outside any span */
	SF_COUNT_IDLE, /* the CPU was idle */
	SF_COUNT_FILTERED, /* excluded by --pid, --tid, --cgroup or the command filter */
	SF_COUNT_NO_MAP, /* of the background: no context map was there to ask */
	SF_COUNT_LONE_BUSY, /* of the samples: sent on their own because the record was in use */
	SF_COUNT_LONE_CROWD, /* of the samples: sent on their own because the bucket had no free record */
	SF_COUNT_LONE_FULL, /* of the samples: sent on their own because the record was full and its emit was refused */
	SF_COUNT_STACKS_SENT, /* first sights that went out */
	SF_COUNT_STACKS_REFUSED, /* first sights that the ring refused; tried again at the next sight */
	SF_COUNT_TABLES_TAKEN, /* records that outgrew their inline slots */
	SF_COUNT_TABLES_SHORT, /* records that wanted a table and found none free: rolled inline instead */
	SF_COUNT_ROLLS, /* folds emitted because they were full, while their span went on */
	SF_COUNT_EMIT_REFUSED, /* emits that the ring refused; the record is kept for the next try */
	SF_COUNT_STALE, /* of the background: in a span, but for longer than max_age_ns or left by a dead thread */
	SF_COUNT_UNSAMPLED, /* times that a span left a thread without ever having had a sample there */
	SF_COUNT_UNSEEN_ENDS, /* stays whose end only a sample or the sweep told of */
	SF_COUNT_STAY_CROWD, /* stays without a record: their bucket was full, so their time is not known */
	SF_COUNT_HOOKED, /* runs of the hooks for the context map */
	SF_COUNT_FOREIGN, /* runs of the hooks for other maps */
	SF_COUNT_BUSY, /* stays that could not begin or end since their record was in use: the next event makes good */
	SF_COUNT_EVICTED, /* entries of the context map that made room for others */
	SF_COUNT_SPENT_NS, /* time in our programs, estimated from every 16th run */
	SF_COUNT_ENDS, /* walks of user stacks, by enum sf_end */
	SF_COUNT_ENDS_LAST = SF_COUNT_ENDS + SF_END_COUNT - 1,
	SF_COUNT_COUNT
};

/* One bank of counters of one CPU. ticks = in_span + background + idle + filtered + sum of drops, exactly. */
struct sf_counters {
	__u64 count[SF_COUNT_COUNT];
	__u64 drop[SF_DROP_COUNT];
};

/* A trace context as OBI's map holds it: ids are bytes in the order of the W3C header, compared as words. */
struct sf_span {
	__u64 trace_id[2];
	__u64 span_id;
};

/* A process through its life: a pid is reused, and start_boottime survives exec, so all three are needed. */
struct sf_process {
	__u64 start_ns; /* start of the thread group's leader */
	__u32 tgid; /* in the initial pid namespace */
	__u32 exec_id; /* grows with each exec */
};

/* What /proc/PID/stat shows of the address space too: tells whether it is still the one that was sampled. */
struct sf_image {
	__u64 start_code;
	__u64 end_code;
	__u64 start_stack;
};

enum sf_msg_type {
	SF_MSG_STACK = 1,
	SF_MSG_FOLD = 2,
};

/* Every message in the ring opens with this. */
struct sf_msg {
	__u8 type; /* enum sf_msg_type */
	__u8 source; /* enum sf_source; folds only */
	__u16 count; /* entries that follow: frames or slots */
	__u32 epoch; /* the flush that it belongs to */
};

/* First sight of a stack: its frames, leaf first, the kernel's before the user's. */
struct sf_stack_msg {
	struct sf_msg head;
	__u64 stack_id;
	struct sf_process process;
	struct sf_image image;
	__u64 seen_ns;
	__u32 kernel_frames; /* of head.count */
	__u32 end; /* enum sf_end */
	__u64 frames[SF_KERNEL_FRAMES + SF_USER_FRAMES + 1]; /* the last one is never used */
};

struct sf_slot {
	__u64 stack_id;
	__u32 count; /* samples */
	__u32 kind; /* enum sf_kind */
};

/* What a fold message says before its slots. A span of zeros is work outside any span (--background stacks). */
struct sf_fold_head {
	struct sf_msg head;
	struct sf_span span;
	__u64 process_start_ns;
	__u64 pid_tgid; /* thread group in the upper half, thread in the lower */
	__u64 first_ns; /* where the stay begins: as the hook saw it, or else as the first sample did */
	__u64 last_ns; /* where it ends: as the hook saw it, or else when it was last known to go on */
	__u64 on_thread_ns; /* of last_ns - first_ns, what the span was on the thread; 0 where nothing was measured */
	__u32 exec_id;
	__u32 stay; /* enum sf_stay */
};

/*
 * A fold message: what has gathered since the last one for the same thread and span. Always a delta, so a span may
 * be of any length and any number of threads; the reader adds up.
 */
struct sf_fold_msg {
	struct sf_fold_head fold;
	struct sf_slot slots[SF_TABLE_SLOTS];
};

/* A record and its owner are the kernel side's own, but for the loader's look at which spans threads carry. */

/* One thread in one span. Everything that touches it first takes `busy` by exchange, and never waits for it. */
struct sf_record {
	__u64 busy; /* 0 free */
	__u64 since_ns; /* begin of what its stay has still to add to fold.on_thread_ns; 0: the span is not current */
	__u64 seen_ns; /* when the span was last known to be on the thread */
	__u64 born_ns; /* when it came there first; flushes do not change it */
	__u64 begun_ns; /* when a hook told that it came, first or again; 0: none did; flushes do not change it */
	__u32 switches; /* of the thread, when the stay began */
	__u16 table; /* 1 + number of its table, 0: none */
	__u16 sampled; /* 1: it has or had a sample */
	struct sf_fold_head fold;
	struct sf_slot slots[SF_INLINE_SLOTS];
};

/* Who owns the records of one bucket: pid_tgid, 0 for a free record. Written only by who holds the record's `busy`. */
struct sf_owners {
	__u64 owner[SF_BUCKET_WAYS];
};

/* How the programs behave; read-only once loaded. */
struct sf_config {
	__u64 seed; /* of stack ids and buckets: random, so that nobody can aim at a collision */
	__u32 bucket_mask; /* buckets of records - 1; a power of two */
	__u32 sent_mask; /* sets of sent stacks - 1; a power of two */
	__u32 table_count; /* tables in the pool; 0: none */
	__u32 wakeup_bytes; /* the loader is woken when the ring holds this much */
	__u32 filter; /* bits of enum sf_filter; each prunes its look-up where it is 0 */
	__u32 background_stacks; /* 1: walk and fold outside spans too */
	__u32 follow_forks; /* 1: children of a targeted process are targets */
	__u32 span_times; /* 1: stays are sent even without a sample */
	__u64 max_age_ns; /* a stay that is longer counts as background from then on; 0: no limit */
	__u32 max_frames; /* of the user half of a stack; at most SF_USER_FRAMES */
	__u32 cgroup_count; /* slots of `cgroups`, at most SF_MAX_CGROUPS */
};

/* Rules of unwinding. What they mean is told where they are made: loader/unwind/rule.h, member by member. */
enum sf_cfa {
	SF_CFA_NONE = 0,
	SF_CFA_BOTTOM,
	SF_CFA_UNSUPPORTED,
	SF_CFA_STACK_POINTER,
	SF_CFA_FRAME_POINTER,
	SF_CFA_REGISTER,
	SF_CFA_STACK_POINTER_SLOT,
	SF_CFA_FRAME_POINTER_SLOT,
	SF_CFA_PLT,
	SF_CFA_SIGNAL,
};
enum sf_saved_fp {
	SF_FP_SAME = 0,
	SF_FP_AT_CFA,
	SF_FP_AT_POINTER,
	SF_FP_UNDEFINED,
};
enum sf_return {
	SF_RETURN_AT_CFA = 0,
	SF_RETURN_IN_REGISTER,
};
enum sf_rule_kind {
	SF_RULE_CALLS = 0,
	SF_RULE_SWITCHES, /* to another stack and back; a frame pointer of zero: there is no way back */
	SF_RULE_INTERRUPTED, /* the caller's address is that of an instruction that was to run */
};
struct sf_rule {
	__u8 cfa; /* enum sf_cfa */
	__u8 fp; /* enum sf_saved_fp */
	__u8 ra; /* enum sf_return */
	__u8 reg; /* of SF_CFA_REGISTER; of stack and frame pointer: enum sf_rule_kind */
	__s32 offset;
	__s32 slot;
	__s32 fp_offset;
	__s32 ra_offset;
	__u32 pad;
};
/* Rules of all files together. The first is that of "none", the second that of code with frame pointers. */
#define SF_RULES 8192
#define SF_RULE_NONE 0
#define SF_RULE_FRAME_POINTER 1

/*
 * Tables lie in chunks, each one value of `chunks`, filled by the loader through its map. A section is the table of
 * some text: an index of `buckets` + 1 words, one for each 256 bytes of text, which says how many rows are before it;
 * and the rows, a word each: where it begins in its 256 bytes (8 bits), and its rule (16 bits above).
 */
#define SF_CHUNK_WORDS (1U << 18)
#define SF_BUCKET_SHIFT 8
#define SF_ROW_RULE_SHIFT 8
#define SF_SECTIONS 1024
struct sf_chunk {
	__u32 words[SF_CHUNK_WORDS];
};
struct sf_section {
	__u32 serial; /* of who has this place now; ranges of others find nothing */
	__u32 chunk;
	__u32 index; /* words after the chunk's beginning */
	__u32 rows;
	__u32 buckets;
	__u32 pad;
};

/* Code of a process: disjoint, by start. */
enum sf_range_kind {
	SF_RANGE_NO_TABLE = 0,
	SF_RANGE_TABLE,
	SF_RANGE_FRAME_POINTER, /* generated code */
	SF_RANGE_NO_RULE, /* the file says nothing about it */
	SF_RANGE_UPROBES, /* where functions return to whose returns are probed */
};
struct sf_range {
	__u64 start;
	__u32 bytes;
	__u32 text; /* where `start` lies in the section's text */
	__u32 section;
	__u32 serial; /* of the section */
	__u32 kind; /* enum sf_range_kind */
	__u32 pad;
};

/* What a process has mapped: `count` of all `ranges` from `first` on. The ranges of a process are never changed. */
struct sf_space {
	struct sf_process process; /* again: an element may be another process's by the time that it is read */
	__u32 generation; /* another one with each change, of whatever process; never 0 */
	__u32 first;
	__u32 count;
	__u32 pad;
};

/* What a sample must be of: of the first, and of one of the other two, as far as they are set. */
enum sf_filter {
	SF_FILTER_TARGETS = 1, /* a process or thread that `targets` names */
	SF_FILTER_CGROUPS = 2, /* a thread in a group of `cgroups`, or below one (cgroup v2) */
	SF_FILTER_MEMBERS = 4, /* a process that `targets` names as a member of a group (cgroup v1) */
};

enum sf_target_kind {
	SF_TARGET_PROCESS = 0,
	SF_TARGET_THREAD = 1,
	SF_TARGET_MEMBER = 2,
};

/* A key of `targets`. */
struct sf_target {
	__u32 id; /* of a thread group, or of a thread */
	__u32 kind; /* enum sf_target_kind */
};

/* Ticks outside spans of one process, banked by the lowest bit of the epoch; only grows. */
struct sf_background {
	__u64 ticks[2];
	__u64 carrier; /* 1: some of its samples were in a span */
};

SF_ASSERT(sizeof(struct sf_span) == 24, "the context map's value");
SF_ASSERT(sizeof(struct sf_process) == 16, "no hidden padding");
SF_ASSERT(sizeof(struct sf_msg) == 8, "one word opens a message");
SF_ASSERT(sizeof(struct sf_slot) == 16, "16 bytes a slot");
SF_ASSERT(sizeof(struct sf_fold_head) == 80, "a span with one stack leaves as 96 bytes");
SF_ASSERT(SF_OFFSET(struct sf_fold_head, span) == 8, "the span follows the head");
SF_ASSERT(SF_OFFSET(struct sf_fold_head, first_ns) == 48, "no hidden padding");
SF_ASSERT(SF_OFFSET(struct sf_fold_msg, slots) == sizeof(struct sf_fold_head), "slots follow");
SF_ASSERT(SF_OFFSET(struct sf_stack_msg, frames) == 72, "frames follow");
SF_ASSERT(sizeof(struct sf_owners) == 64, "one cache line");
SF_ASSERT(sizeof(struct sf_record) == 48 + 80 + 128, "no hidden padding");
SF_ASSERT(sizeof(struct sf_config) == 56, "no hidden padding");
SF_ASSERT(sizeof(struct sf_rule) == 24, "no hidden padding");
SF_ASSERT(sizeof(struct sf_section) == 24, "no hidden padding");
SF_ASSERT(sizeof(struct sf_range) == 32, "no hidden padding");
SF_ASSERT(sizeof(struct sf_space) == 32, "no hidden padding");
SF_ASSERT(sizeof(struct sf_chunk) <= 4U << 20, "5.10 takes no larger value");
SF_ASSERT(SF_RULES <= 1 << 16, "a row has 16 bits for its rule");
SF_ASSERT(SF_TABLE_INDEX >= 2 * SF_TABLE_SLOTS, "the index must stay half empty");
SF_ASSERT(SF_TABLE_SLOTS <= 255, "one byte indexes a slot");
SF_ASSERT((SF_TABLE_INDEX & (SF_TABLE_INDEX - 1)) == 0, "masked, not divided");
SF_ASSERT(SF_THREAD_RECORDS <= SF_BUCKET_WAYS, "a thread's records live in one bucket");

#endif
