/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* All maps. bpf/README.md says of each who writes, reads and deletes, and what happens when it is full. */
#ifndef SPANFOLD_MAPS_BPF_H
#define SPANFOLD_MAPS_BPF_H

#include "compat.bpf.h"
#include "core.h"

/* Sizes of 1 are placeholders: the loader knows them (bpf/README.md, "Maps"). */

/* The pinned context map behind one slot, so that a re-created pin is adopted by one update. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_LRU_HASH);
			__uint(max_entries, 16384);
			__type(key, __u64);
			__type(value, struct sf_span);
		});
} context SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct sf_counters);
} counters SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE); /* the loader reads what threads carry */
	__type(key, __u32);
	__type(value, struct sf_owners);
} owners SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE); /* the loader reads what threads carry */
	__type(key, __u32);
	__type(value, struct sf_record);
} records SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sf_table);
} tables SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sf_sent);
} sent SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct sf_process);
	__type(value, struct sf_background);
} processes SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct sf_target);
	__type(value, __u8);
} targets SEC(".maps") __weak;

/* Groups of cgroup v2 that a filter names. */
struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} cgroups SEC(".maps") __weak;

/* Changes that a thread made to the entry of another one. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct sf_note);
} notes SEC(".maps") __weak;

/* What threads had in the context map when they ended. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct sf_span);
} left_behind SEC(".maps") __weak;

/* What is taken, where the kernel has no exchange: records by place, tables behind them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u8);
} locks SEC(".maps") __weak;

/* What processes have mapped: found by the process, and then by address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct sf_process);
	__type(value, struct sf_space);
} spaces SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct sf_range);
} ranges SEC(".maps") __weak;

/* Tables of unwinding. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SF_SECTIONS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct sf_section);
} sections SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct sf_chunk);
} chunks SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SF_RULES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct sf_rule);
} rules SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sf_memo);
} memos SEC(".maps") __weak;

/* Programs that gather a sample; each has scratch of its own on each CPU, since one may interrupt the other. */
enum entry {
	ENTRY_TICK = 0,
	ENTRY_SET,
	ENTRY_DELETE,
	ENTRY_EXIT,
	ENTRY_COUNT,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ENTRY_COUNT);
	__type(key, __u32);
	__type(value, struct sf_scratch);
} scratch SEC(".maps") __weak;

#endif
